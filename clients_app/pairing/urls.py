"""Addresses of pairing."""

from django.urls import path

from clients_app.pairing.page import pair
from clients_app.pairing.views import PairingList, PairingToken

urlpatterns = [
    path("v1/pairing", PairingList.as_view(), name="pairing"),
    path("v1/pairing/token", PairingToken.as_view(), name="pairing-token"),
    path("pair", pair, name="pair"),
]
