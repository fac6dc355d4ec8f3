"""Clients: who may talk to this service."""

from django.apps import AppConfig


class ClientsConfig(AppConfig):
    """Paired clients, their tokens and scopes."""

    name = "clients_app"
    verbose_name = "Access"
