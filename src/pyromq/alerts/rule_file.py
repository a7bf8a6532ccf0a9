"""The rules as Prometheus reads them: `python scripts/alert_rules.py > deploy/prometheus/pyromq.rules.yaml`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from .conditions import duration
from .rules import RULES, AlertRule, fill

_HEAD = """\
# Made from src/pyromq/alerts/rules.py; a test compares. What each rule means and what to do: docs/metrics.md.
# BrokerDown and NameServerDown want the jobs of deploy/prometheus/prometheus.yaml (pyromq-broker, pyromq-namesrv).
groups:
  - name: pyromq
    rules:
"""


def rule_file(rules: Sequence[AlertRule] = RULES) -> str:
    """Return the whole file."""
    return _HEAD + "".join(line + "\n" for rule in rules for line in _lines(rule))


def _lines(rule: AlertRule) -> Iterator[str]:
    yield f"      - alert: {rule.name}"
    yield "        expr: |"
    yield from (f"          {line}" for line in rule.condition.promql().splitlines())
    if rule.wait_s:
        yield f"        for: {duration(rule.wait_s)}"
    yield "        labels:"
    yield f"          severity: {rule.severity.value}"
    yield "        annotations:"
    yield f"          summary: {_template(rule.summary)}"
    yield f"          description: {_template(rule.cure)}"


def _template(text: str) -> str:
    return json.dumps(fill(text, lambda label: "{{ $labels." + label + " }}"))
