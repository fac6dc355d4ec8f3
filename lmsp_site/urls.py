"""Every address of the service that Django's handler answers."""

from django.contrib import admin
from django.urls import include, path

from lmsp_site import admin_pages
from lmsp_site.health import Discovery, Live, Ready
from lmsp_site.openapi.views import Description, Page
from models_app.views import ModelDetail, ModelList
from tasks_app import statistics
from tasks_app.metrics.view import Metrics

admin_pages.register()

urlpatterns = [
    path(".well-known/lmsp", Discovery.as_view(), name="discovery"),
    path("healthz", Live.as_view(), name="healthz"),
    path("readyz", Ready.as_view(), name="readyz"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("v1/openapi.json", Description.as_view(), name="openapi"),
    path("v1/docs", Page.as_view(), name="docs"),
    path("admin/", admin.site.urls),
    path("", include("clients_app.pairing.urls")),
    path("v1/models", ModelList.as_view(speeds=statistics.speeds), name="models"),
    path("v1/models/<path:model_id>", ModelDetail.as_view(speeds=statistics.speeds), name="model"),
    path("", include("tasks_app.urls")),
]

handler400 = "lmsp_site.views.bad_request"
handler404 = "lmsp_site.views.not_found"
handler500 = "lmsp_site.views.server_error"
