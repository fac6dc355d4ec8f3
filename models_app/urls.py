"""Addresses of the model catalogue."""

from django.urls import path

from models_app.views import ModelDetail, ModelList

urlpatterns = [
    path("v1/models", ModelList.as_view(), name="models"),
    path("v1/models/<path:model_id>", ModelDetail.as_view(), name="model"),
]
