"""Messages that are not delivered, kept whole: as Parquet beside the checkpoint, and in a topic if one is named.

    FOLDER/refused/batch=7/part-....parquet     place, body, properties and cause of each; a repeat writes it anew

In the topic each has its body and properties and, as DEAD_*, where it was and why it was refused: the same pipeline
delivers that topic once the cause is mended, and numbers keep late events out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions

from ...cdc.events import KEY_PROPERTY
from ...errors import ConfigError
from ...spark.options import net_part
from ..run.messages import Source
from ..run.sending import StepSender, in_order
from .task import COLUMNS

CAUSE = "DEAD_CAUSE"
_MOST_WORDS = 2_000  # of a cause in a property
_ORIGIN = {"DEAD_TOPIC": "topic", "DEAD_BROKER": "brokerName", "DEAD_QUEUE": "queueId", "DEAD_OFFSET": "queueOffset"}
MOST_NAMED = 1_000  # of a batch, in the summary


@dataclass(frozen=True)
class RefusedMessages:
    """Of one run, whose name `run` is the same after a restart. Without a topic they are in the folder alone."""

    spark: SparkSession
    folder: str
    run: str
    target: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.folder}/refused"

    def keep(self, outcome: DataFrame, number: int) -> list[dict[str, Any]]:
        """Keep those of a batch, all of them once, whatever was killed; return the first ones by place and cause."""
        rows = outcome.where("cause IS NOT NULL").select(*COLUMNS, "cause")
        place = f"{self.place}/batch={number}"
        rows.write.mode("overwrite").parquet(place)
        kept = self.spark.read.schema(rows.schema).parquet(place)
        if self.target:
            StepSender(self.spark, f"{self.folder}/dead", self.target, self.run).send(
                in_order(kept, 1), number, _as_sent
            )
        named = kept.select("topic", "queueId", "queueOffset", "cause")
        return [row.asDict() for row in named.orderBy("topic", "queueId", "queueOffset").take(MOST_NAMED)]


def target_of(source: Source, topic: str) -> dict[str, str]:
    """Return where dead letters are sent; nowhere without a topic. ConfigError for one that the pipeline reads."""
    if not topic:
        return {}
    named = [each.strip() for each in source.get("topic", "").split(",")]
    if topic in named or re.fullmatch(source.get("topicPattern", ""), topic):
        raise ConfigError(
            f"dead letters to {topic}: this pipeline reads that topic, and would deliver them to itself. Name another "
            "one, which the pattern does not fit"
        )
    return {"nameServer": source["nameServer"], "topic": topic} | net_part(source)


def _as_sent() -> list[Column]:
    """Return the columns of a write: the message as it was, with where it was and why it was refused."""
    cause = functions.substring(functions.regexp_replace("cause", r"\p{Cntrl}", " "), 1, _MOST_WORDS)
    pairs = [functions.lit(CAUSE), cause]
    for name, column in _ORIGIN.items():
        pairs += [functions.lit(name), functions.col(column).cast("string")]
    own = functions.map_filter("properties", lambda name, _: ~name.isin(CAUSE, *_ORIGIN))
    key = functions.col("properties")[KEY_PROPERTY]
    return [
        functions.col("body"),
        functions.col("properties")["TAGS"].alias("tags"),
        functions.col("properties")["KEYS"].alias("keys"),
        key.alias("shardingKey"),
        functions.map_concat(own, functions.create_map(*pairs)).alias("properties"),
    ]
