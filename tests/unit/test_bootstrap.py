"""Setting up: what is noticed, what is said, and what an interruption leaves behind."""

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lmsp_site import address, configuration
from lmsp_site.bootstrap import __main__ as bootstrap
from lmsp_site.bootstrap import environment, machine, problem
from lmsp_site.bootstrap.environment import Environment
from lmsp_site.bootstrap.problem import SetupError

ROOT = Path(__file__).parent.parent.parent


def run_bootstrap(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "lmsp_site.bootstrap", *arguments],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


class TestWhatIsSaidBeforeAnythingIsInstalled:
    def test_an_old_python_is_told_what_is_needed(self) -> None:
        program = "import sys; sys.version_info = (3, 8, 1); import lmsp_site.bootstrap"
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

        assert done.returncode == 1
        assert done.stderr.startswith("This is Python 3.8 and 3.11 or later is needed")
        assert done.stderr.count("\n") == 1

    @pytest.mark.parametrize("module", ["lmsp_site/__init__.py", "lmsp_site/bootstrap/__init__.py"])
    def test_an_old_python_understands_what_is_read_before_that(self, module: str) -> None:
        tree = ast.parse((ROOT / module).read_text(), feature_version=(3, 4))

        # Formatted strings are parsed whatever the version asked for.
        assert not any(isinstance(node, ast.JoinedStr) for node in ast.walk(tree))

    def test_a_port_in_use_is_one_line_with_a_remedy(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = run_bootstrap("run", LMSP_HOST="127.0.0.1", LMSP_PORT=str(port))

        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith(f"Cannot listen on 127.0.0.1 port {port}: something listens there already")
        assert done.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        ("variable", "value", "said"),
        [
            ("LMSP_PORT", "http", "LMSP_PORT must be a number from 1 to 65535, not 'http'."),
            ("LMSP_PORT", "65536", "LMSP_PORT must be a number from 1 to 65535, not '65536'."),
            ("LMSP_HOST", "192.0.2.1", "this machine has no such address; set LMSP_HOST"),
            ("LMSP_HOST", "no such name", "not a name or address of this machine; set LMSP_HOST"),
        ],
    )
    def test_an_address_that_cannot_be_meant_is_one_line(self, variable: str, value: str, said: str) -> None:
        done = run_bootstrap("run", **{variable: value})

        assert done.returncode == 1
        assert said in done.stderr
        assert done.stderr.count("\n") == 1

    def test_an_unknown_command_is_a_usage_error(self) -> None:
        assert run_bootstrap("fly").returncode == 2

    @pytest.mark.parametrize("variables", [{}, {"LMSP_HOST": "0.0.0.0", "LMSP_PORT": "8123"}])
    def test_the_address_is_the_one_that_the_service_will_use(
        self, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("LMSP_HOST", "LMSP_PORT"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

        service = configuration.from_environment()
        assert bootstrap.wanted_address() == (service.host, service.port)


class TestTheMachine:
    def test_without_a_compiler_it_says_which_package_has_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("CXX", raising=False)

        with pytest.raises(SetupError, match=r"no C\+\+ compiler.*apt install g\+\+.*same command again"):
            machine.require_compiler()

    def test_a_compiler_named_by_cxx_is_enough(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        compiler = _program(tmp_path / "c++-99", "")
        monkeypatch.setenv("PATH", "")
        monkeypatch.setenv("CXX", f"{compiler} -march=native")

        machine.require_compiler()

    def test_a_gpu_that_only_nvidia_smi_shows_is_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _program(tmp_path / "nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'")
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.delenv("LMSP_GPU", raising=False)
        assert machine.has_gpu()

        monkeypatch.setenv("LMSP_GPU", "no")
        assert not machine.has_gpu()

    def test_the_loopback_address_is_what_a_browser_opens(self) -> None:
        assert address.url("0.0.0.0", 8000) == "http://127.0.0.1:8000"
        assert address.url("::", 8000) == "http://[::1]:8000"
        assert address.url("lmsp.example", 80) == "http://lmsp.example:80"

    def test_a_compiler_is_told_to_keep_the_tile_configuration_where_there_are_tiles(self) -> None:
        assert machine.compiler_flags("flags : avx2 amx_tile amx_int8") == "-fno-dse"
        assert machine.compiler_flags("flags : avx2") == ""
        assert machine.compiler_flags("Features : fp asimd") == ""


class TestWhatStoppedPip:
    @pytest.mark.parametrize(
        ("output", "said"),
        [
            (
                "WARNING: Retrying after connection broken by 'NewConnectionError(...: Failed to establish a new "
                "connection: [Errno -3] Temporary failure in name resolution')'\n"
                "ERROR: No matching distribution found for Django==5.2.19",
                "The package index cannot be reached: check the network",
            ),
            ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
            (
                "WARNING: Connection timed out\n  ERROR: Failed building wheel for llama-cpp-python\n",
                "llama-cpp-python did not compile; what the compiler said is in setup.log",
            ),
            ("ERROR: No matching distribution found for torch==2.14.1", "No release of torch==2.14.1 fits this Python"),
            ("Traceback ...", "pip failed; what it said is in setup.log"),
        ],
    )
    def test_it_is_one_line_that_says_what_to_do(self, output: str, said: str) -> None:
        message = str(problem.of_pip(output, Path("setup.log")))

        assert said in message
        assert "\n" not in message

    def test_the_last_line_that_tells_says_what_it_is_at(self) -> None:
        output = (
            "Collecting numpy==2.4.6\n  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl\n"
            "Building wheels for collected packages: llama-cpp-python\n"
        )
        assert environment.stage_of("") is None
        assert environment.stage_of(output) == "downloading numpy"
        output += "  Building wheel for llama-cpp-python (pyproject.toml): still running...\n"
        assert str(environment.stage_of(output)).startswith("compiling llama.cpp")


class TestTheEnvironment:
    @pytest.fixture
    def installed(self, tmp_path: Path) -> Environment:
        (tmp_path / "requirements.txt").write_text("-r requirements-cpu.txt\ntorch==1\n")
        (tmp_path / "requirements-cpu.txt").write_text("Django==1\n")
        installed = Environment(tmp_path, tmp_path)
        installed.python.parent.mkdir(parents=True)
        installed.python.symlink_to(sys.executable)
        # What an installation with this very Python would have noted.
        names = ["requirements.txt", "requirements-cpu.txt"]
        installed.record(installed.done(names))
        return installed

    def test_a_second_run_finds_nothing_to_install(self, installed: Environment) -> None:
        assert installed.has(["requirements.txt"])
        assert Environment(installed.root, installed.root).has(["requirements.txt", "requirements-cpu.txt"])

    def test_a_changed_file_is_installed_again_and_so_is_what_includes_it(self, installed: Environment) -> None:
        (installed.root / "requirements-cpu.txt").write_text("Django==2\n")

        assert not installed.has(["requirements-cpu.txt"])
        assert not installed.has(["requirements.txt"])

    def test_another_build_of_the_engine_is_installed_again(
        self, installed: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CMAKE_ARGS", "-DGGML_NATIVE=OFF")

        assert not installed.has(["requirements-cpu.txt"])
        # pip leaves an installed package as it is, however it was compiled: only a new environment helps.
        assert not installed.is_sound()

    def test_an_interrupted_installation_is_not_trusted(self, installed: Environment) -> None:
        installed.unfinished.touch()

        assert not installed.has(["requirements.txt"])
        assert not installed.is_sound()

    def test_an_environment_whose_python_is_gone_is_not_trusted(self, installed: Environment) -> None:
        installed.python.unlink()
        installed.python.symlink_to(installed.root / "removed")

        assert not installed.has(["requirements.txt"])
        assert not installed.is_sound()

    def test_an_unreadable_note_is_no_note(self, installed: Environment) -> None:
        installed.stamps.write_text(json.dumps({"requirements.txt": "x"})[:9])

        assert not installed.has(["requirements.txt"])


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
