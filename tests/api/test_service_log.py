"""The service's log file: what its processes say on standard error, and nobody else."""

import stat
import subprocess
import sys

from tests.service import REPOSITORY, Service, eventually


def test_the_processes_of_a_service_write_one_file_and_standard_error(service: Service) -> None:
    task = service.finished(service.create(max_output_tokens=2)["id"])["id"]
    service.request("GET", "/v1/no-such-address")
    file = service.data_dir / "logs" / "service.log"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    signs = {
        "supervisor": "logger=lmsp_site.supervisor event=started child=web",
        "engine host": 'event="engine started"',
        "worker": f'event="attempt completed" task={task}',
        "web server": "/v1/no-such-address",
    }
    eventually(lambda: [who for who, sign in signs.items() if sign in file.read_text()] == list(signs))
    on_stderr = set(service.log.read_text().splitlines())
    assert set(file.read_text().splitlines()) <= on_stderr


def test_other_commands_leave_it_alone(service: Service) -> None:
    command = [sys.executable, "manage.py", "shell", "-c", "import logging; logging.warning('stray')"]
    done = subprocess.run(command, cwd=REPOSITORY, env=service.environment, capture_output=True, text=True, check=True)
    assert "event=stray" in done.stderr
    assert "event=stray" not in (service.data_dir / "logs" / "service.log").read_text()
