"""Writes deploy/grafana/*.json from the tables below: `python scripts/grafana_boards.py`. A test compares, and asks a
real Prometheus every expression.

Schema of Grafana 9 and later; one variable for the data source, the others filter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "deploy" / "grafana"
BROKER = 'cluster=~"$cluster",node_id=~"$broker"'
TOPIC = f'{BROKER},topic=~"$topic"'
GROUP = f'{BROKER},consumer_group=~"$group"'
USERS = 'is_system="false"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """`lines`: legend and expression. `kind`: a course, the number of now, or a table."""

    title: str
    unit: str
    lines: dict[str, str]
    kind: str = "timeseries"
    text: str = ""


class Board(NamedTuple):
    name: str
    title: str
    variables: tuple[str, ...]
    panels: list[Panel]


def rate(metric: str, where: str, by: str = "") -> str:
    inner = f"rate({metric}{{{where}}}[$__rate_interval])"
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def quantile(share: float, metric: str, where: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{{{where}}}[$__rate_interval])))"


REFUSED = rate("pyromq_refused_total", BROKER, "request_class, limit") + " or vector(0)"

CLUSTER = Board(
    "cluster",
    "PyroMQ: cluster",
    ("cluster", "broker"),
    [
        Panel("Brokers that are ready", "short", {"": f"sum(pyromq_ready{{{BROKER}}})"}, "stat"),
        Panel("In a second", "cps", {"": rate("rocketmq_messages_in_total", f"{BROKER},{USERS}")}, "stat"),
        Panel("Waiting messages", "short", {"": f"sum(rocketmq_consumer_lag_messages{{{BROKER},{USERS}}})"}, "stat"),
        Panel(
            "Oldest waiting",
            "ms",
            {"": f"max(rocketmq_consumer_lag_latency_milliseconds{{{BROKER},{USERS}}})"},
            "stat",
        ),
        Panel(
            "Messages by broker",
            "cps",
            {
                "{{node_id}} in": rate("rocketmq_messages_in_total", BROKER, "node_id"),
                "{{node_id}} out": rate("rocketmq_messages_out_total", BROKER, "node_id"),
            },
        ),
        Panel(
            "Bytes by broker",
            "Bps",
            {
                "{{node_id}} in": rate("rocketmq_throughput_in_total", BROKER, "node_id"),
                "{{node_id}} out": rate("rocketmq_throughput_out_total", BROKER, "node_id"),
            },
        ),
        Panel(
            "Busiest topics",
            "cps",
            {"{{topic}}": f"topk(10, {rate('rocketmq_messages_in_total', f'{BROKER},{USERS}', 'topic')})"},
        ),
        Panel(
            "Groups furthest behind",
            "short",
            {
                "{{consumer_group}}": "topk(10, sum by (consumer_group) "
                f"(rocketmq_consumer_lag_messages{{{BROKER},{USERS}}}))"
            },
        ),
        Panel("Dead letters", "short", {"{{consumer_group}}": f"pyromq_dead_letters{{{BROKER}}}"}),
        Panel("Used share of the disk", "percentunit", {"{{node_id}}": f"pyromq_disk_used_ratio{{{BROKER}}}"}),
        Panel(
            "Name servers",
            "short",
            {"brokers": "max(pyromq_namesrv_brokers)", "topics": "max(pyromq_namesrv_topics)"},
        ),
        Panel("Routes asked for", "cps", {"": "sum(rate(pyromq_namesrv_routes_total[$__rate_interval]))"}),
    ],
)

TOPICS = Board(
    "topic",
    "PyroMQ: topic",
    ("cluster", "broker", "topic"),
    [
        Panel("In, by type", "cps", {"{{message_type}}": rate("rocketmq_messages_in_total", TOPIC, "message_type")}),
        Panel("Bytes in", "Bps", {"{{topic}}": rate("rocketmq_throughput_in_total", TOPIC, "topic")}),
        Panel(
            "Out, by group", "cps", {"{{consumer_group}}": rate("rocketmq_messages_out_total", TOPIC, "consumer_group")}
        ),
        Panel(
            "Size of messages",
            "bytes",
            {
                "half are smaller": quantile(0.5, "rocketmq_message_size", TOPIC),
                "99 % are smaller": quantile(0.99, "rocketmq_message_size", TOPIC),
            },
            text="By request: of a batch the mean size counts.",
        ),
        Panel(
            "Waiting messages, by group",
            "short",
            {"{{consumer_group}}": f"sum by (consumer_group) (rocketmq_consumer_lag_messages{{{TOPIC}}})"},
        ),
        Panel(
            "Oldest waiting, by group",
            "ms",
            {"{{consumer_group}}": f"max by (consumer_group) (rocketmq_consumer_lag_latency_milliseconds{{{TOPIC}}})"},
        ),
        Panel(
            "Timed messages that wait", "short", {"{{topic}}": f"sum by (topic) (rocketmq_timing_messages{{{TOPIC}}})"}
        ),
        Panel("Undecided transactions", "short", {"{{topic}}": f"sum by (topic) (rocketmq_half_messages{{{TOPIC}}})"}),
    ],
)

GROUPS = Board(
    "group",
    "PyroMQ: group",
    ("cluster", "broker", "group"),
    [
        Panel("Members", "short", {"": f"max(pyromq_group_members{{{GROUP}}})"}, "stat"),
        Panel("Waiting messages", "short", {"": f"sum(rocketmq_consumer_lag_messages{{{GROUP}}})"}, "stat"),
        Panel("Oldest waiting", "ms", {"": f"max(rocketmq_consumer_lag_latency_milliseconds{{{GROUP}}})"}, "stat"),
        Panel("Dead letters", "short", {"": f"sum(pyromq_dead_letters{{{GROUP}}}) or vector(0)"}, "stat"),
        Panel(
            "Waiting, in flight, not taken",
            "short",
            {
                "waiting": f"sum(rocketmq_consumer_lag_messages{{{GROUP}}})",
                "in flight": f"sum(rocketmq_consumer_inflight_messages{{{GROUP}}})",
                "not taken": f"sum(rocketmq_consumer_ready_messages{{{GROUP}}})",
            },
        ),
        Panel("Taken, by topic", "cps", {"{{topic}}": rate("rocketmq_messages_out_total", GROUP, "topic")}),
        Panel(
            "Age of the oldest, by topic",
            "ms",
            {
                "{{topic}} not consumed": f"max by (topic) (rocketmq_consumer_lag_latency_milliseconds{{{GROUP}}})",
                "{{topic}} not taken": f"max by (topic) (rocketmq_consumer_queueing_latency_milliseconds{{{GROUP}}})",
            },
        ),
        Panel(
            "Given up as dead letters",
            "cps",
            {"{{consumer_group}}": rate("pyromq_dead_lettered_total", GROUP, "consumer_group")},
        ),
        Panel(
            "Connections, by language and version",
            "short",
            {"{{language}} {{version}}": f"sum by (language, version) (rocketmq_consumer_connections{{{GROUP}}})"},
        ),
        Panel(
            "Subscriptions that differ",
            "short",
            {"{{topic}}": f"sum by (topic) (pyromq_subscription_conflict{{{GROUP}}}) or vector(0)"},
            text="1 while members subscribe differently, so that messages are skipped silently.",
        ),
    ],
)

STORE = Board(
    "broker",
    "PyroMQ: broker and store",
    ("cluster", "broker"),
    [
        Panel("Ready", "short", {"{{node_id}}": f"pyromq_ready{{{BROKER}}}"}, "stat"),
        Panel("Builds", "short", {"{{node_id}} {{version}} {{kernel}}": f"pyromq_build_info{{{BROKER}}}"}, "stat"),
        Panel("The loop is late by", "s", {"{{node_id}}": f"pyromq_loop_lag_seconds{{{BROKER}}}"}),
        Panel(
            "Sends by handlers",
            "s",
            {
                "median": quantile(0.5, "pyromq_send_seconds", BROKER),
                "99 %": quantile(0.99, "pyromq_send_seconds", BROKER),
            },
            text="Those that the kernel answers without a handler take some microseconds and are not among them.",
        ),
        Panel("Answered by the kernel", "cps", {"{{request}}": rate("pyromq_kernel_answers_total", BROKER, "request")}),
        Panel(
            "Requests by code",
            "cps",
            {"{{request_code}}": rate("rocketmq_rpc_latency_milliseconds_count", BROKER, "request_code")},
        ),
        Panel(
            "Answers that are no success",
            "cps",
            {
                "{{request_code}} {{response_code}}": rate(
                    "rocketmq_rpc_latency_milliseconds_count",
                    f'{BROKER},response_code!="success"',
                    "request_code, response_code",
                )
            },
        ),
        Panel("Requests that wait", "short", {"{{processor}}": f"rocketmq_processor_watermark{{{BROKER}}}"}),
        Panel(
            "Refused for a limit",
            "cps",
            {"{{request_class}} {{limit}}": REFUSED},
        ),
        Panel("Disk used", "percentunit", {"{{node_id}}": f"pyromq_disk_used_ratio{{{BROKER}}}"}),
        Panel("Log", "bytes", {"{{node_id}}": f"pyromq_store_bytes{{{BROKER}}}"}),
        Panel("Growth of the log", "Bps", {"{{node_id}}": f"rate(pyromq_log_end_bytes{{{BROKER}}}[$__rate_interval])"}),
        Panel(
            "Oldest message, and how long they are to stay",
            "s",
            {
                "{{node_id}} oldest": f"pyromq_store_oldest_seconds{{{BROKER}}}",
                "{{node_id}} to stay": f"pyromq_retention_seconds{{{BROKER}}}",
            },
        ),
        Panel("Not synced yet", "bytes", {"{{node_id}}": f"rocketmq_storage_flush_behind_bytes{{{BROKER}}}"}),
        Panel("Timers are late by", "ms", {"{{node_id}}": f"rocketmq_timer_dequeue_latency_milliseconds{{{BROKER}}}"}),
        Panel(
            "Timed messages by when they are due",
            "short",
            {"within {{timer_bound_s}} s": f"sum by (timer_bound_s) (rocketmq_timer_message_snapshot{{{BROKER}}})"},
        ),
        Panel(
            "Popped messages",
            "short",
            {"{{state}}": f"sum by (state) (pyromq_pop_messages{{{BROKER}}})"},
        ),
        Panel(
            "Transactions ended",
            "cps",
            {
                "committed": rate("rocketmq_commit_messages_total", BROKER),
                "rolled back": rate("rocketmq_rollback_messages_total", BROKER),
            },
        ),
        Panel(
            "What a scrape costs",
            "s",
            {"{{node_id}}": f"pyromq_scrape_seconds{{{BROKER}}}"},
        ),
        Panel("Series of a scrape", "short", {"{{node_id}}": f"pyromq_scrape_series{{{BROKER}}}"}),
    ],
)

CLIENTS = Board(
    "clients",
    "PyroMQ: clients",
    ("cluster", "broker"),
    [
        Panel(
            "Producers by language and version",
            "short",
            {"{{language}} {{version}}": f"sum by (language, version) (rocketmq_producer_connections{{{BROKER}}})"},
        ),
        Panel(
            "Consumers by language and version",
            "short",
            {"{{language}} {{version}}": f"sum by (language, version) (rocketmq_consumer_connections{{{BROKER}}})"},
        ),
        Panel(
            "Consumers by how they consume",
            "short",
            {"{{consume_mode}}": f"sum by (consume_mode) (rocketmq_consumer_connections{{{BROKER}}})"},
        ),
        Panel("Members of groups", "short", {"{{consumer_group}}": f"pyromq_group_members{{{BROKER}}}"}),
        Panel(
            "Connections by listener", "short", {"{{listener}}": f"sum by (listener) (pyromq_connections{{{BROKER}}})"}
        ),
        Panel("Bytes kept for clients", "bytes", {"{{node_id}}": f"pyromq_buffered_bytes{{{BROKER}}}"}),
        Panel("Clients of proxies", "short", {"{{node_id}}": "pyromq_proxy_clients"}),
        Panel("Proxies", "short", {"{{node_id}}": "rocketmq_proxy_up"}, "stat"),
    ],
)

BOARDS = (CLUSTER, TOPICS, GROUPS, STORE, CLIENTS)
_VARIABLES = {
    "cluster": "label_values(pyromq_ready, cluster)",
    "broker": 'label_values(pyromq_ready{cluster=~"$cluster"}, node_id)',
    "topic": 'label_values(rocketmq_messages_in_total{cluster=~"$cluster",is_system="false"}, topic)',
    "group": 'label_values(pyromq_group_members{cluster=~"$cluster"}, consumer_group)',
}


def rendered(board: Board) -> str:
    """Return a board as Grafana imports it."""
    panels, x, y = [], 0, 0
    for number, panel in enumerate(board.panels, 1):
        width, height = (6, 4) if panel.kind == "stat" else (12, 8)
        if x + width > 24:
            x, y = 0, y + (4 if board.panels[number - 2].kind == "stat" else 8)
        panels.append(_panel(number, panel, {"x": x, "y": y, "w": width, "h": height}))
        x += width
    whole = {
        "title": board.title,
        "uid": f"pyromq-{board.name}",
        "tags": ["pyromq", "rocketmq"],
        "schemaVersion": 37,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), *(_variable(name) for name in board.variables)]},
        "panels": panels,
    }
    return json.dumps(whole, indent=1) + "\n"


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expr, "legendFormat": legend or panel.title}
        for at, (legend, expr) in enumerate(panel.lines.items())
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str) -> dict[str, Any]:
    query = _VARIABLES[name]
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


if __name__ == "__main__":
    for each in BOARDS:
        (FOLDER / f"{each.name}.json").write_text(rendered(each), "utf-8")
