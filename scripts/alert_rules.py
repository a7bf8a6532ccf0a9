"""Prints the alert rules for Prometheus: `python scripts/alert_rules.py > deploy/prometheus/pyromq.rules.yaml`."""

from pyromq.alerts.rule_file import rule_file

print(rule_file(), end="")
