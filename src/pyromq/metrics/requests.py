"""How long remoting requests took at any daemon, by code: the families that name server and proxy share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model.codes import ResponseCode
from ..protocol.requests import ROWS
from ..transport.server import Server
from ..transport.turns.answer_times import BOUNDS, AnswerKind
from .families import Family, HistogramValue, Labels, LabelSets, MetricKind, words

_RESPONSES = frozenset(code.value for code in ResponseCode)


def names_of(kind: AnswerKind) -> dict[str, str]:
    """Return the labels of an answer, in Java's words. A code that nobody knows is `other`: anybody may send any."""
    return {
        "request_code": ROWS[kind.code].name.lower() if kind.code in ROWS else "other",
        "response_code": ResponseCode(kind.response).name.lower() if kind.response in _RESPONSES else "other",
        "is_long_polling": words(kind.held),
    }


def served(labels: LabelSets, servers: Sequence[Server]) -> Iterable[Family]:
    """Yield connections, and how long requests took."""
    found = dict[Labels, HistogramValue]()
    for server in servers:
        for kind, times in server.service.times.all():
            key = labels.of(**names_of(kind))
            before = found.get(key, HistogramValue([0] * (len(BOUNDS) + 1), 0.0))
            sums = [mine + its for mine, its in zip(before.counts, times.counts, strict=True)]
            found[key] = HistogramValue(sums, before.total + times.total_s)
    text = "From a request's arrival to its answer."
    yield Family(
        "pyromq_request_seconds", MetricKind.HISTOGRAM, text, list(found.items()), unit="seconds", bounds=BOUNDS
    )
    open_now = [(labels.of(listener=server.name), server.connections) for server in servers]
    yield Family("pyromq_connections", MetricKind.GAUGE, "Open connections.", open_now)
    yield from of_strangers(labels, servers)


def of_strangers(labels: LabelSets, servers: Iterable[Server]) -> Iterable[Family]:
    """Yield what is known of connections that have not shown who they are, where everybody is asked."""
    strangers = next((server.strangers for server in servers if server.strangers is not None), None)
    if strangers is None:
        return
    text = "Connections that have not shown who they are."
    yield Family("pyromq_strangers", MetricKind.GAUGE, text, [(labels.of(), strangers.connections)])
    held = [(labels.of(), strangers.held)]
    yield Family("pyromq_stranger_bytes", MetricKind.GAUGE, "Bytes held for them.", held, unit="bytes")
    refused = [(labels.of(limit=limit), count) for limit, count in sorted(strangers.refused.items())]
    text = "Connections of strangers that were refused or closed."
    yield Family("pyromq_strangers_refused_total", MetricKind.COUNTER, text, refused)
