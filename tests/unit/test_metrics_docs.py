"""What dashboard, alert rules and documentation say of the metrics is what there is."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tasks_app.metrics.gauges import METRICS
from tasks_app.statistics import Counter, Histogram
from tests.service import REPOSITORY

DOCS = REPOSITORY / "docs"
SAMPLES = {
    f"{metric.name}{suffix}": metric
    for metric in METRICS
    for suffix in (("_bucket", "_sum", "_count") if isinstance(metric, Histogram) else ("",))
}
# What Prometheus adds, and what a histogram has beside its own.
LABELS_OF_ALL = {"instance", "job", "le"}


def panels() -> list[dict[str, Any]]:
    dashboard: dict[str, Any] = json.loads((DOCS / "grafana" / "lmsp.json").read_text())
    found: list[dict[str, Any]] = dashboard["panels"]
    return found


def rules() -> list[dict[str, Any]]:
    return [
        rule
        for group in yaml.safe_load((DOCS / "grafana" / "alerts.yml").read_text())["groups"]
        for rule in group["rules"]
    ]


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (rule["expr"] for rule in rules())


@pytest.mark.parametrize("expression", list(expressions()))
def test_every_expression_asks_for_metrics_and_labels_that_there_are(expression: str) -> None:
    names = set(re.findall(r"\blmsp_\w+", expression))
    assert names <= SAMPLES.keys()
    assert names
    labels = {label for name in names for label in SAMPLES[name].labels} | LABELS_OF_ALL
    for grouping in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        assert set(re.split(r",\s*", grouping)) <= labels
    for name, matchers in re.findall(r"(\blmsp_\w+){([^}]*)}", expression):
        assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers)) <= {*SAMPLES[name].labels, *LABELS_OF_ALL}


@pytest.mark.parametrize("expression", list(expressions()))
def test_a_counter_is_asked_for_its_growth_and_a_gauge_is_not(expression: str) -> None:
    for before, name in re.findall(r"(\w*)\(?\b(lmsp_\w+)", expression):
        grows = isinstance(SAMPLES[name], Counter | Histogram)
        assert (before in ("rate", "increase")) == grows, name


def test_every_metric_is_shown() -> None:
    shown = {
        name for panel in panels() for target in panel.get("targets", ()) for name in SAMPLES if name in target["expr"]
    }
    assert {SAMPLES[name] for name in shown} == set(METRICS)


def test_the_dashboard_can_be_provisioned() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    rows = [panel["title"] for panel in panels() if panel["type"] == "row"]
    assert rows == ["Overview", "Queue", "Generation", "Durability", "Machine"]
    for panel in panels():
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}", "the data source of whoever imports it"
            assert panel["description"]
    taken = [
        (x, y)
        for panel in panels()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken), "no panel lies over another"
    assert max(x for x, _ in taken) < 24


def test_rules_say_what_is_wrong_and_how_bad() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]


def test_the_table_in_the_docs_has_exactly_the_metrics_with_their_labels() -> None:
    table = re.findall(r"^\| `(lmsp_\w+)` \|([^|]*)\|", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    written = {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in table}
    assert len(written) == len(table)
    assert written == {metric.name: metric.labels for metric in METRICS}


def test_units_are_in_the_names() -> None:
    for metric in METRICS:
        assert metric.name.startswith("lmsp_")
        assert metric.name.endswith("_total") == isinstance(metric, Counter)
        if isinstance(metric, Histogram):
            assert metric.name.endswith("_seconds")
            assert list(metric.bounds) == sorted(metric.bounds)
