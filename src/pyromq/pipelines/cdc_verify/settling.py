"""Looks at the rows of chunks that differ: what is lost, added, doubled or differing now, and still after a pause.

A sink is behind its source by a moment, so a difference counts only if it is there twice: in two looks that follow one
another, between which the source's row did not change. Where it did change, the sink has a further pause to follow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, functions

from ..reconcile import judged
from .chunks import Chunks
from .reading import SINK, SOURCE, SideTask, SinkSide, SourceSide, rows_of_chunks
from .views import ComparedTable, SinkView

CHANGING = "changing"
_numbers = itertools.count(1)  # of looks, of this process
_MORE = (
    "max(if(side = 0, hash, null)) AS leftHash",
    "max(if(side = 0, row, null)) AS leftRow",
    "max(if(side = 1, row, null)) AS rightRow",
    "min(chunk) AS chunk",
)


@dataclass(frozen=True)
class SettlePause:
    """How long to wait between two looks, and how often to look again. `pause` may end early, by an exception."""

    seconds: float
    looks: int
    pause: Callable[[float], None]


@dataclass(frozen=True)
class TableComparison:
    """What is needed to look at one table's rows again."""

    spark: SparkSession
    table: ComparedTable
    view: SinkView
    source: SourceSide
    chunks: Chunks
    tasks: int

    def both(self, wanted: Iterable[int]) -> tuple[SideTask, SideTask]:
        """Return how both sides' wanted chunks are read, the sink as it is at this moment."""
        numbers, look = sorted(wanted), next(_numbers)
        ranges, shares = self.view.has_ranges(self.table), self.view.has_shares
        left = self.chunks.pieces(numbers, self.tasks, has_ranges=True, has_shares=False)
        right = self.chunks.pieces(numbers, self.tasks, has_ranges=ranges, has_shares=shares)
        sink = SinkSide(self.view.at(self.table), self.table)
        return (
            SideTask(SOURCE, self.source, self.chunks, left, frozenset(numbers), look),
            SideTask(SINK, sink, self.chunks, right, frozenset(numbers), look),
        )

    def differing(self, wanted: Sequence[int]) -> DataFrame:
        """Return the rows of these chunks that are not equal now."""
        left, right = (rows_of_chunks(self.spark, task) for task in self.both(wanted))
        return judged(left.unionByName(right), *_MORE).where("verdict <> 'equal'")


@contextmanager
def settled(look: TableComparison, wanted: Sequence[int], settling: SettlePause) -> Iterator[tuple[DataFrame, int]]:
    """Yield the differences that stand, and how many looks it took.

    The verdict is `changing` of a row whose source changed before the last look.
    """
    found = [look.differing(wanted).persist()]
    try:
        while settling.looks >= len(found) and settling.seconds > 0:
            chunks = [row.chunk for row in found[-1].select("chunk").distinct().collect()]
            if not chunks:
                break
            settling.pause(settling.seconds)
            found.append(_standing(look.differing(chunks), found[-1]).persist())
            if not found[-1].where(f"verdict = '{CHANGING}'").count():
                break
        yield found[-1], len(found)
    finally:
        for each in found:
            each.unpersist()


def _standing(now: DataFrame, before: DataFrame) -> DataFrame:
    """Return what differs now; as `changing` where it did not before, or the source's row was another one then."""
    was_there = functions.lit(True).alias("wasThere")
    joined = now.join(before.select("id", functions.col("leftHash").alias("hashBefore"), was_there), "id", "left")
    verdict = f"if(coalesce(wasThere, false) AND hashBefore <=> leftHash, verdict, '{CHANGING}')"
    return joined.withColumn("verdict", functions.expr(verdict)).drop("hashBefore", "wasThere")
