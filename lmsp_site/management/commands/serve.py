"""Run the whole service: one command, one process tree."""

import http.client
import logging
import os
import socket
import sys
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection, connections

from lmsp_site import address, logs, stopping, supervisor, wal
from lmsp_site.children import ChildSpec
from lmsp_site.configuration import REPOSITORY, Configuration
from lmsp_site.errors import storage_error
from lmsp_site.processes import raise_file_limit
from lmsp_site.watchdogs import Unanswered
from models_app.engines.client import EngineUnavailable, HostClient
from models_app.loading import Attendant
from tasks_app import recovery
from tasks_app.board import history
from tasks_app.stalling import StallWatch

_ANSWER_TIMEOUT_SECONDS = 2.0
# From the first question without an answer until it is killed. A start, on a busy machine too, has to fit into it.
_WEB_PATIENCE_SECONDS = 30.0
_HOST_PATIENCE_SECONDS = 15.0
_CLOSE_TIMEOUT_SECONDS = 5
_LOCK_PATIENCE_MS = 2000

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    """``serve``: migrate, recover, then run engine host, workers and web server until told to stop."""

    requires_system_checks = ()
    help = "Run the whole service until SIGTERM or Ctrl-C. What is unfinished then goes on at the next start."

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve, unless another service has the data directory or the address."""
        configuration: Configuration = settings.LMSP
        try:
            supervisor.hold(configuration.run_dir / "serve.lock")
            # Bound once and handed to each web server: while one is restarted, clients wait instead of failing.
            listener = address.listen(configuration.host, configuration.port)
        except (supervisor.AlreadyServedError, address.AddressUnavailableError) as refusal:
            self.stderr.write(str(refusal))
            sys.exit(1)
        # Only now: a second service that was refused must not write into the first one's log.
        logs.to_file(configuration.log_file, configuration.log_file_bytes)
        call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
        # R6: what an earlier service left unfinished, before anything serves.
        recovery.recover_all()
        connections.close_all()
        # The children are started by module name and read the same variables, wherever this was started.
        os.environ["LMSP_DATA_DIR"] = str(configuration.data_dir)
        # Each stream takes a descriptor of the web server.
        raise_file_limit()
        os.chdir(REPOSITORY)
        with listener:
            # Stopped in the opposite order: the web server serves until the workers have finished what they can.
            children = [_engine_host(configuration), _web(configuration, listener), _workers(configuration)]
            supervisor.Supervisor(
                children,
                configuration.shutdown_grace,
                ready=self._announce_when_ready,
                stopping=partial(stopping.announce, configuration.run_dir),
            ).run()

    def _announce_when_ready(self) -> bool:
        configuration: Configuration = settings.LMSP
        if not _answers(configuration, "/readyz"):
            return False
        url = address.url(configuration.host, configuration.port)
        self.stdout.write(f"The service is ready at {url} (admin: {url}/admin/). Ctrl-C stops it.")
        self.stdout.flush()
        return True


def _engine_host(configuration: Configuration) -> ChildSpec:
    command = [sys.executable, "-m", "models_app.engines.host", "--run-dir", str(configuration.run_dir)]
    client = HostClient(configuration.run_dir)

    def answers() -> bool:
        try:
            return client.ping(timeout=_ANSWER_TIMEOUT_SECONDS) > 0
        except EngineUnavailable:
            return False

    return ChildSpec("engine-host", command, stalled=Unanswered(answers, _HOST_PATIENCE_SECONDS))


def _workers(configuration: Configuration) -> ChildSpec:
    watch, log, attendant = StallWatch(), wal.Keeper(configuration.database), Attendant()
    minutes = history.Keeper()

    def stalled() -> bool:
        log.tend()
        try:
            with connection.cursor() as cursor:
                # Whoever locks the database must not keep this process from its other duties.
                cursor.execute(f"PRAGMA busy_timeout={_LOCK_PATIENCE_MS}")
            recovery.sweep()
            minutes.tend()
            attendant.tend()
            return watch.stalled()
        except DatabaseError as error:
            if storage_error(error) is None:
                raise
            logger.warning("nothing swept", extra={"error": str(error)})
            # Neither could the workers take anything.
            watch.begin_anew()
            return False
        finally:
            # The children are forked: no connection may be open then.
            connections.close_all()

    return ChildSpec("workers", [sys.executable, str(REPOSITORY / "manage.py"), "run_workers"], stalled=stalled)


def _web(configuration: Configuration, listener: socket.socket) -> ChildSpec:
    command = [
        *(sys.executable, "-m", "lmsp_site.daphne_server"),
        *("--fd", str(listener.fileno())),
        *("--verbosity", "0"),  # no access log
        "--no-server-name",
        # A task may run for longer than any limit that would be set here.
        "--websocket_timeout=-1",
        # Of a thousand that come back at once after a restart, the last have to wait.
        "--websocket_connect_timeout=30",
        *("--application-close-timeout", str(_CLOSE_TIMEOUT_SECONDS)),
        # A request is as long on a socket as in a body.
        *("--websocket-max-message-size", str(configuration.max_body_bytes)),
        *("--websocket-max-frame-size", str(configuration.max_body_bytes)),
        # A ping stands behind what a slow reader has not read: by its answer it would be taken for dead.
        "--ping-timeout=0",
        "lmsp_site.asgi:application",
    ]
    stalled = Unanswered(partial(_answers, configuration, "/healthz"), _WEB_PATIENCE_SECONDS)
    return ChildSpec("web", command, descriptors=(listener.fileno(),), stalled=stalled)


def _answers(configuration: Configuration, path: str) -> bool:
    host = address.reachable(configuration.host)
    caller = http.client.HTTPConnection(host, configuration.port, timeout=_ANSWER_TIMEOUT_SECONDS)
    try:
        caller.request("GET", path)
        return caller.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        caller.close()
