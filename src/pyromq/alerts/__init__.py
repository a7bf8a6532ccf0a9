"""When somebody is to be told: one table of rules, for Prometheus and for whoever judges by itself.

    from pyromq.alerts.rules import RULES
    from pyromq.alerts.evaluate import Figures, found
    from pyromq.alerts.states import AlertStates

    states = AlertStates(RULES)
    for change in states.judge(figures, now_s):      # every 15 s or so; `figures` implements `Figures`
        if change.needs_telling:                           # it fires, or it is resolved after it had fired
            await webhook(change.alert.summary, change.alert.labels, change.state)

`rules.py` is the table; `conditions.py` has the few forms that a condition may take. Each form knows its words in
Prometheus' language (`promql`), and `evaluate.py` judges the same form over samples in memory, so nothing is written
twice. `rule_file.py` writes `deploy/prometheus/pyromq.rules.yaml`; a test compares. Pure: no clock, no network.

The metrics are those of a broker's scrape (docs/metrics.md). A picture that lacks one leaves its rules quiet: what is
unknown never fires and never resolves anything, see `Figures`.
"""
