"""Every property that RocketMQ or we know, and values that nobody honest sends: what the matrices are made of."""

from __future__ import annotations

from pyromq.model.message import Property
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.command import Command
from pyromq.protocol.headers.send import LONG_NAMES

PROPERTIES = sorted(value for name, value in vars(Property).items() if name.isupper())
VALUES = {
    "empty": "",
    "no number": "abc",
    "superscript": "²",
    "other digits": "٣٣",
    "5,000 digits": "9" * 5000,
    "huge": "x" * 20_000,
    "negative": "-7",
    "least": str(-(1 << 63)),
    "beyond a long": str(1 << 64),
    "largest": str((1 << 63) - 1),
    "fraction": "1.5",
    "underscore": "1_0",
    "name end": "a\x01b",
    "pair end": "a\x02b",
    "smuggled": "a\x02TIMER_ROLL_TIMES\x01abc\x02PYRO_DUE_MS\x01²\x02PYRO_DEAD_MS\x01²",
    "NUL": "\x00",
    "path": "../../../etc/passwd",
    "emoji": "😀",
    "true": "true",
}
WAITS: dict[str, dict[str, str]] = {
    "plain": {},
    "delayed": {"DELAY": "1"},
    "timed": {"TIMER_DELAY_SEC": "3"},
    "half": {"TRAN_MSG": "true", "PGROUP": "P"},
    "retry": {"RETRY_TOPIC": "A", "DELAY": "3"},
    "dead": {"RETRY_TOPIC": "A"},
    "reply": {"REPLY_TO_CLIENT": "somebody", "CORRELATION_ID": "1"},
    "batch": {},
}
KINDS = tuple(WAITS)
_CODES = {"batch": 320, "reply": 325}
_TOPICS = {"retry": "%RETRY%G", "dead": "%RETRY%G"}
_TRIES = {"retry": 1, "dead": 1000}


def text(pairs: dict[str, str]) -> str:
    """As somebody writes them who is kept from nothing."""
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


def command(kind: str, mark: str, hostile: dict[str, str], opaque: int = 0) -> Command:
    """A send of this kind. Its body is the mark, its last properties are the hostile ones."""
    properties = text({"UNIQ_KEY": mark, "KEYS": mark, **WAITS[kind]}) + text(hostile)
    body = mark.encode()
    if kind == "batch":
        body = encode_batch([BatchEntry(body, 0, properties.encode())])
    fields = {
        "producerGroup": "P",
        "topic": _TOPICS.get(kind, "A"),
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "4" if kind == "half" else "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": properties,
        "reconsumeTimes": str(_TRIES.get(kind, 0)),
        "unitMode": "false",
        "batch": "true" if kind == "batch" else "false",
    }
    short = {LONG_NAMES.get(name, name): value for name, value in fields.items()}
    return Command(code=_CODES.get(kind, 310), opaque=opaque, version=401, fields=short, body=body)
