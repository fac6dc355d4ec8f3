"""The least that Django REST framework does for a durable task, under Daphne: `bare_insert.py DIRECTORY PORT`.

It checks a bearer token by its hash, validates the body with a serializer, and inserts a task and its first event in
one synced SQLite transaction. It imports nothing of the service and keeps its connections, as the service does. Prints
the token when it listens, and ends when stdin does.
"""

import hashlib
import os
import secrets
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import django
from django.conf import settings

directory, port = Path(sys.argv[1]), int(sys.argv[2])
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": directory / "bare.sqlite3",
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
            },
        }
    },
    REST_FRAMEWORK={
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
        "UNAUTHENTICATED_USER": None,
    },
    ROOT_URLCONF=__name__,
    USE_TZ=True,
)
django.setup()

from django.core.asgi import get_asgi_application
from django.db import connection, models, transaction
from django.urls import path
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView


class Client(models.Model):
    """Who may call."""

    objects: Any = models.Manager()
    token_hash = models.CharField(max_length=64, unique=True)

    class Meta:
        app_label = "bare"


class Task(models.Model):
    """What was accepted."""

    objects: Any = models.Manager()
    id = models.CharField(primary_key=True, max_length=40)
    client = models.ForeignKey(Client, on_delete=models.CASCADE)
    model = models.CharField(max_length=200)
    status = models.CharField(max_length=20, default="queued")
    input = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "bare"


class Event(models.Model):
    """What has happened to it."""

    objects: Any = models.Manager()
    task = models.ForeignKey(Task, on_delete=models.CASCADE)
    sequence_number = models.IntegerField()
    type = models.CharField(max_length=40)

    class Meta:
        app_label = "bare"


class _Body(serializers.Serializer):
    model = serializers.CharField(max_length=200)
    input = serializers.CharField()
    max_output_tokens = serializers.IntegerField(min_value=1, required=False)
    temperature = serializers.FloatField(min_value=0, required=False)


class _Bearer(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[None, Client]:
        scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        client = Client.objects.filter(token_hash=hashlib.sha256(token.encode()).hexdigest()).first()
        if scheme != "Bearer" or client is None:
            raise AuthenticationFailed
        return None, client


class _Tasks(APIView):
    authentication_classes = (_Bearer,)

    def post(self, request: Request) -> Response:
        body = _Body(data=request.data)
        body.is_valid(raise_exception=True)
        fields: dict[str, Any] = body.validated_data
        with transaction.atomic():
            task = Task.objects.create(
                id=f"task_{uuid.uuid4().hex}", client=request.auth, model=fields["model"], input=fields["input"]
            )
            Event.objects.create(task=task, sequence_number=0, type="queued")
        return Response({"id": task.id, "status": task.status, "created_at": task.created_at.timestamp()}, status=202)


urlpatterns = [path("tasks", _Tasks.as_view())]


def main() -> None:
    """Serve until stdin ends."""
    from daphne.endpoints import build_endpoint_description_strings
    from daphne.server import Server

    with connection.schema_editor() as editor:
        for table in (Client, Task, Event):
            editor.create_model(table)
    token = secrets.token_hex(32)
    Client.objects.create(token_hash=hashlib.sha256(token.encode()).hexdigest())

    def end_with_stdin() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_stdin, daemon=True).start()
    Server(
        get_asgi_application(),
        endpoints=build_endpoint_description_strings(host="127.0.0.1", port=port),
        ready_callable=lambda: print(token, flush=True),
        verbosity=0,
    ).run()


if __name__ == "__main__":
    main()
