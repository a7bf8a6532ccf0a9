"""Every alert fires, stays quiet and resolves: by Debian's promtool, and the same by our own evaluation."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pyromq.alerts.conditions import metrics_of
from pyromq.alerts.evaluate import Labels, Sample
from pyromq.alerts.rule_file import rule_file
from pyromq.alerts.rules import RULES
from pyromq.alerts.states import AlertState, AlertStates
from tests.alerts.cases import CASES, Case
from tests.support import require

RULE_FILE = Path(__file__).parents[2] / "deploy" / "prometheus" / "pyromq.rules.yaml"
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Course:
    """Implements `Figures` over the series of a case, at one step of it."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.step = 0

    def now(self, metric: str) -> Mapping[Labels, float]:
        return {labels: course[-1][1] for labels, course in self.past(metric, 0).items()}

    def past(self, metric: str, seconds: float) -> Mapping[Labels, Sequence[Sample]]:
        size = self._case.step_s
        first = max(0, self.step - int(seconds // size))
        found = {}
        for name, values in self._case.series.items():
            if name.partition("{")[0] == metric:
                steps = range(first, min(self.step + 1, len(values)))
                found[tuple(sorted(_LABEL.findall(name)))] = [(at * size, values[at]) for at in steps]
        return found


def firing(case: Case) -> dict[int, list[dict[str, str]]]:
    """Return the labels of what our own evaluation has firing, at the three steps of the case."""
    rule = next(one for one in RULES if one.name == case.alert)
    states, course, found = AlertStates([rule]), Course(case), {}
    for step in range(case.resolved + 1):
        course.step = step
        list(states.judge(course, step * case.step_s))
        found[step] = [alert.labels for alert in states.active() if alert.state is AlertState.FIRING]
    return found


def test_every_rule_has_a_case() -> None:
    assert sorted(case.alert for case in CASES) == sorted(rule.name for rule in RULES)


def test_the_rule_file_is_the_table_written_out() -> None:
    assert RULE_FILE.read_text("utf-8") == rule_file(), (
        "type: python scripts/alert_rules.py > deploy/prometheus/pyromq.rules.yaml"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_our_own_evaluation(case: Case) -> None:
    found = firing(case)
    assert (found[case.quiet], found[case.fires], found[case.resolved]) == ([], [case.labels], [])


def test_a_condition_of_what_is_unknown_is_quiet() -> None:
    for rule in RULES:
        empty = Case(rule.name, {}, 0, 0, 0, {})
        assert list(AlertStates([rule]).judge(Course(empty), 10_000.0)) == []
        assert metrics_of(rule.condition)


def test_texts_name_the_labels_of_the_series() -> None:
    case = next(one for one in CASES if one.alert == "SubscriptionConflict")
    states, course = AlertStates(RULES), Course(case)
    course.step = case.fires
    list(states.judge(course, 0.0))
    (change,) = [one for one in states.judge(course, 60.0) if one.needs_telling]
    assert change.alert.summary == "Members of g subscribe to t differently: messages are skipped silently"


def test_changes_are_told_once() -> None:
    case = next(one for one in CASES if one.alert == "BrokerNotReady")
    states, course, told = AlertStates(RULES), Course(case), []
    for step in range(15):
        course.step = step
        told += [(step, change.state) for change in states.judge(course, step * 60.0)]
    assert told == [(5, AlertState.PENDING), (6, AlertState.FIRING), (10, AlertState.RESOLVED)]


def test_promtool_agrees(tmp_path: Path) -> None:
    require(shutil.which("promtool") is not None, "promtool (Debian's package prometheus)")
    spec = {"rule_files": [str(RULE_FILE)], "evaluation_interval": "30s", "tests": [_spec(case) for case in CASES]}
    file = tmp_path / "cases.yaml"
    file.write_text(json.dumps(spec))  # JSON is YAML
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def _spec(case: Case) -> dict[str, object]:
    rule = next(one for one in RULES if one.name == case.alert)
    annotations = {
        "summary": rule.text(rule.summary, case.labels),
        "description": rule.text(rule.cure, case.labels),
    }
    alert = {
        "exp_labels": {**case.labels, "severity": rule.severity.value},
        "exp_annotations": annotations,
    }
    steps = {case.quiet: [], case.fires: [alert], case.resolved: []}
    return {
        "interval": f"{case.step_s}s",
        "input_series": [
            {"series": name, "values": " ".join(map(str, values))} for name, values in case.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{step * case.step_s}s", "alertname": case.alert, "exp_alerts": alerts}
            for step, alerts in steps.items()
        ],
    }
