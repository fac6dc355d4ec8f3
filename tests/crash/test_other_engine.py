"""A resume on an engine that is not the one it ran on."""

from pathlib import Path

import pytest

from tests.service import Service, eventually


@pytest.mark.parametrize(("threads", "exact"), [("1", True), ("2", False)])
def test_a_resume_says_whether_its_engine_decodes_as_before(tmp_path: Path, threads: str, exact: bool) -> None:
    with Service(tmp_path / "data") as service:
        task = service.create("Write a long story.", on_restart="resume", max_output_tokens=60)["id"]
        eventually(lambda: service.task(task)["usage"]["output_tokens"] > 5, 60)
        service.kill()
        sent = service.text_on_disk(task)
        service.environment["LMSP_ENGINE_THREADS"] = threads
        service.start()
        done = service.finished(task)
        # Exact or not, nothing that was sent is taken back, and the text goes on from there.
        assert done["status"] == "completed"
        assert done["output_text"].startswith(sent)
        assert done["usage"]["output_tokens"] == 60
        assert [event["exact"] for event in service.events(task) if event.get("resumed")] == [exact]
        service.check_log()
