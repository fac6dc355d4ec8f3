"""Who the service is and how it is: discovery, liveness, readiness."""

import shutil
import sqlite3
from contextlib import closing

from django.conf import settings
from django.db import DatabaseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from lmsp_site import PROTOCOL_VERSION, __version__, stopping, wal
from lmsp_site.models import ServiceConfig
from models_app.engines import registry
from models_app.engines.client import EngineUnavailable, HostClient
from tasks_app import ownership, stalling

_LOCK_PATIENCE_SECONDS = 1.0


class _Open(APIView):
    """A call that needs no credential."""

    authentication_classes = []
    permission_classes = []


class Discovery(_Open):
    """GET /.well-known/lmsp."""

    def get(self, request: Request) -> Response:
        """Tell identity, versions and endpoints."""
        config = ServiceConfig.current()
        return Response(
            {
                "protocol": "lmsp",
                "protocol_version": PROTOCOL_VERSION,
                "service_id": str(config.service_id),
                "name": config.name,
                "software": {"name": "lmsp-django", "version": __version__},
                "endpoints": {
                    "tasks": "/v1/tasks",
                    "task_events": "/v1/tasks/{task_id}/events",
                    "responses": "/v1/responses",
                    "chat_completions": "/v1/chat/completions",
                    "models": "/v1/models",
                    "own_client": "/v1/clients/me",
                    "pairing": "/v1/pairing",
                    "pairing_token": "/v1/pairing/token",
                    "pairing_page": "/pair",
                    "health": "/healthz",
                    "readiness": "/readyz",
                    "metrics": "/metrics",
                    "openapi": "/v1/openapi.json",
                    "documentation": "/v1/docs",
                },
                "capabilities": {
                    "restart_policies": ["fail", "retry", "resume"],
                    "default_on_restart": config.default_on_restart,
                    "event_transports": ["json", "sse", "websocket"],
                    "websockets": ["/v1/events", "/v1/responses", "/v1/tasks/{task_id}/events"],
                    "idempotency_keys": True,
                    "background": True,
                },
                "authentication": {"schemes": ["bearer"]},
            }
        )


class Live(_Open):
    """GET /healthz."""

    def get(self, request: Request) -> Response:
        """Answer at all."""
        return Response({"status": "ok"})


class Ready(_Open):
    """GET /readyz."""

    def get(self, request: Request) -> Response:
        """Tell whether work can be accepted and run, and if not, why."""
        faults, notes = checks(), remarks()
        ready = all(fault is None for fault in faults.values())
        body = {
            "status": "ready" if ready else "not_ready",
            "checks": {
                **{name: {"ok": fault is None, "detail": fault or notes.get(name)} for name, fault in faults.items()},
                # Never a reason not to be ready: models of other engines run.
                "engines": {"ok": True, "detail": " ".join(registry.unavailable().values()) or None},
            },
        }
        return Response(body, status=200 if ready else 503, headers={} if ready else {"Retry-After": "1"})


def checks() -> dict[str, str | None]:
    """Return, for each thing that work needs, what hinders it; ``None`` where nothing does."""
    database = database_fault(_LOCK_PATIENCE_SECONDS)
    return {"database": database, "runner": _runner(database_works=database is None), "disk": disk_fault()}


def remarks() -> dict[str, str]:
    """Return, by the same names, what hinders nothing yet and should be seen to."""
    note = wal.note(settings.LMSP.database)
    return {"database": note} if note else {}


def database_fault(patience: float) -> str | None:
    """Return what hinders a write: the lock is taken, within so many seconds, and given back."""
    try:
        # Not to make one where there is none: it would have no tables, and look like a new one to the next start.
        address = f"{settings.LMSP.database.as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, patience, uri=True, isolation_level=None)) as probe:
            probe.execute("BEGIN IMMEDIATE")
            probe.execute("ROLLBACK")
        ServiceConfig.current()
    except (sqlite3.Error, DatabaseError) as error:
        return f"The database cannot be written to: {error}."
    return None


def _runner(*, database_works: bool) -> str | None:
    if stopping.is_announced(settings.LMSP.run_dir):
        return "The service is stopping: new work is refused, and what runs is being finished."
    try:
        HostClient(settings.LMSP.run_dir).ping()
    except EngineUnavailable as error:
        return f"Tasks are accepted but not run: {error}."
    if not ownership.anybody_lives():
        return "Tasks are accepted but not run: there is no worker."
    # Without the database nobody can take anything, and that is its own fault to name.
    if database_works and stalling.takes_no_jobs():
        return "Tasks are accepted but not run: the workers take none."
    return None


def disk_fault() -> str | None:
    """Return what hinders new work: less room than is kept in reserve."""
    free = shutil.disk_usage(settings.LMSP.data_dir).free
    # Without a reserve too: a lock can be had on a disk that has no room for what is to be written under it.
    reserve = max(settings.LMSP.min_free_bytes, 1 << 20)
    if free < reserve:
        return f"Only {free >> 20} MB are free; {reserve >> 20} MB are kept in reserve."
    return None
