"""The diagram and the table of docs/state_machine.md say what states.py says."""

import re
from pathlib import Path

from lmsp_site.models import RestartPolicy
from tasks_app.states import ENTERED_FROM, FINISHED, RECOVERY, STATE_ANNOUNCED_BY, Status

_DOC = (Path(__file__).parents[2] / "docs" / "state_machine.md").read_text()


def test_the_diagram_has_every_transition_and_no_other() -> None:
    drawn = set(re.findall(r"^ +(\w+) --> (\w+)", _DOC, re.MULTILINE))
    coded = {(old.value, new.value) for new, origins in ENTERED_FROM.items() for old in origins}
    assert drawn == coded


def test_the_diagram_ends_where_tasks_are_finished() -> None:
    assert set(re.findall(r"(\w+) --> \[\*\]", _DOC)) == {status.value for status in FINISHED}


def test_each_arrow_names_the_events_of_its_state() -> None:
    for target, label in re.findall(r"--> (\w+) : (.+)$", _DOC, re.MULTILINE):
        events = {kind.value for kind, status in STATE_ANNOUNCED_BY.items() if status == Status(target)}
        assert events <= set(label.split(", "))


def test_the_table_is_the_recovery_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| `(\w+)` \|$", _DOC, re.MULTILINE)
    assert {Status(found): tuple(rest) for found, *rest in rows} == {
        status: tuple(outcomes[policy].value for policy in RestartPolicy) for status, outcomes in RECOVERY.items()
    }
