"""An archive's manifests: which offsets each batch holds, what is missing between them, up to where brokers may delete.

    FOLDER/manifest/7.json    {"batch": 7, "queues": [{topic, brokerName, queueId, begin, end, messages, bytes}],
                               "safe": {"orders": {"broker-a": {"0": 120}}}, "ends": {...}}

`safe` is what the archive holds without a gap after this batch; the numbers are exact, wherever a run was killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...spark.read.offsets import Offsets, Queue, from_json, to_json
from ..report.grouping import COUNTS, grouped, rows_of
from ..report.summary import Metrics
from .files import read_text, read_texts, write_text

_PLACES = ["topic", "brokerName", "queueId"]


def manifests(spark: SparkSession, folder: str) -> list[dict[str, Any]]:
    """Return the manifests in the order of batches."""
    found = [json.loads(text) for _, text in read_texts(spark, f"{folder}/manifest", ".json")]
    return sorted(found, key=lambda each: int(each["batch"]))


def write_manifest(
    spark: SparkSession, folder: str, batch: int, queues: Sequence[Mapping[str, Any]], *, whole: bool = True
) -> None:
    """Write the manifest of a batch.

    The one before says how far the archive had come; a long run does not read them all each time. `whole`: the batch
    has every message of its offsets, not a choice of them.
    """
    extent = _extent_before(spark, folder, batch)
    extent.add(queues, whole=whole)
    content = {"batch": batch, "queues": list(queues), "safe": to_json(extent.safe), "ends": to_json(extent.ends)}
    content |= {} if whole else {"whole": False}
    write_text(spark, f"{folder}/manifest/{batch}.json", json.dumps(content))


def _extent_before(spark: SparkSession, folder: str, batch: int) -> Extent:
    found = json.loads(read_text(spark, f"{folder}/manifest/{batch - 1}.json") or "{}")
    if "ends" in found:
        return Extent(from_json(found["ends"]), from_json(found["safe"]))
    return _walked(each for each in manifests(spark, folder) if int(each["batch"]) < batch)[0]


def held(batch: DataFrame) -> list[dict[str, Any]]:
    found = grouped(batch, _PLACES, "min(queueOffset) AS begin", "max(queueOffset) + 1 AS end", *COUNTS)
    return rows_of(found.orderBy(*_PLACES))


def queue_of(row: Mapping[str, Any]) -> Queue:
    return Queue(row["topic"], row["brokerName"], row["queueId"])


@dataclass(slots=True)
class Extent:
    """How far an archive has come: the end of each queue, and the end of what it has without a gap. Pure."""

    ends: Offsets = field(default_factory=dict)
    safe: Offsets = field(default_factory=dict)

    def add(self, queues: Iterable[Mapping[str, Any]], *, whole: bool = True) -> list[dict[str, Any]]:
        """Add the next batch; return what is missing before it. One that is not whole makes nothing safe."""
        missing = []
        for row in queues:
            queue, begin, end = queue_of(row), row["begin"], row["end"]
            if begin < self.ends.get(queue, begin):  # the topic was made anew: what was kept before is of another queue
                del self.ends[queue]
                self.safe.pop(queue, None)
            last = self.ends.get(queue, begin)
            if begin > last:
                missing.append({"queue": str(queue), "begin": last, "end": begin})
            elif whole and self.safe.get(queue, last) == last and (queue in self.safe or queue not in self.ends):
                self.safe[queue] = max(end, last)
            self.ends[queue] = max(end, last)
        return missing


def gaps(found: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], Offsets]:
    """Return offsets between batches that no batch has, and up to where each queue is kept without one: pure.

    A gap is not always a loss: a topic's offsets may have holes (damage, a filter at the broker).
    """
    extent, missing = _walked(found)
    return missing, extent.safe


def _walked(found: Iterable[Mapping[str, Any]]) -> tuple[Extent, list[dict[str, Any]]]:
    extent = Extent()
    missing = [gap for each in found for gap in extent.add(each["queues"], whole=each.get("whole", True))]
    return extent, missing


def kept(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each queue. `holes`: offsets within and between its batches that no message has."""
    found = list(found)
    _, safe = gaps(found)
    rows: dict[Queue, dict[str, Any]] = {}
    holes: Offsets = {}
    ends: Offsets = {}
    for manifest in found:
        for row in manifest["queues"]:
            queue = queue_of(row)
            one = rows.setdefault(queue, {**queue.as_row(), "messages": 0})
            one["messages"] += row["messages"]
            one["from"] = min(one.get("from", row["begin"]), row["begin"])
            one["to"] = max(one.get("to", row["end"]), row["end"])
            between = max(0, row["begin"] - ends.get(queue, row["begin"]))  # below 0: the topic was made anew
            holes[queue] = holes.get(queue, 0) + between + row["end"] - row["begin"] - row["messages"]
            ends[queue] = row["end"]
    return [one | {"holes": holes[queue], "safeToDeleteUpTo": safe.get(queue)} for queue, one in sorted(rows.items())]


def totals(found: Iterable[Mapping[str, Any]]) -> Metrics:
    return Metrics.of(row for manifest in found for row in manifest["queues"])
