"""The settings that a run began with, kept beside Spark's checkpoint: a restart must have the same.

Times such as `2h ago` are fixed by the first start, and the run's name with them: requests of a repeated batch carry
it, and brokers with a duplicate window store them once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from ...ambient import system_random
from ...errors import ConfigError, PyroError
from ..lake.files import check_writable, read_text, read_texts, write_text

_NAME = "run.json"


def begin(spark: SparkSession, folder: str, settings: Mapping[str, Any], **fixed: Any) -> dict[str, Any]:
    """Return `fixed` as at the first start, and `run`, its name. ConfigError if the settings have changed since."""
    if kept := check(spark, folder, settings):
        return {**kept["fixed"], "run": kept["run"]}
    run = f"{system_random().getrandbits(96):024x}"
    write_text(spark, f"{folder}/{_NAME}", json.dumps({"run": run, "told": dict(settings), "fixed": fixed}))
    return {**fixed, "run": run}


def check(spark: SparkSession, folder: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `begin` would go on with. ConfigError if it would refuse, or the folder cannot be written."""
    check_writable(spark, folder)
    kept = _kept(spark, folder)
    if kept:
        before = kept["told"]
        for name in sorted(before.keys() | settings.keys()):
            if before.get(name) != settings.get(name):
                raise ConfigError(
                    f"{name} = {settings.get(name)!r}: the run of checkpoint {folder} began with {before.get(name)!r}. "
                    "Go on with that, or name a new checkpoint"
                )
    return kept


def which(source: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a source that choose messages: addresses and limits may differ after a restart."""
    names = ("topic", "topicPattern", "assign", "archive", "tags", "sql")
    return {name: source[name] for name in names if source.get(name)}


def recorded_options(spark: SparkSession, folder: str) -> dict[str, Any]:
    return dict(_kept(spark, folder).get("told", {}))


def _kept(spark: SparkSession, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_text(spark, f"{folder}/{_NAME}") or "{}")
    return found


def check_whole(spark: SparkSession, folder: str, batches: Collection[int]) -> None:
    """Raise PyroError if the checkpoint is not the one that made these batches: their numbers would be given again."""
    if not batches:
        return
    names = read_texts(spark, f"{folder}/checkpoint/offsets")
    last = max((int(name) for name, _ in names if name.isdigit()), default=-1)
    if last < max(batches):
        raise PyroError(
            f"{folder}/checkpoint: it ends with batch {last}, and {folder} has rows of batch {max(batches)}: it was "
            "removed or is an old copy. Bring it back, or begin in a new folder"
        )


class Standing(NamedTuple):
    """Where a stream goes on, as Spark's own logs have it: offsets and times in the form of `to_json`.

    `start` is the end of the last batch that is done, none before the first one. `pending` is the end of a batch that
    was planned and is not done: Spark repeats it first.
    """

    start: dict[str, Any]
    pending: dict[str, Any] | None


def standing(spark: SparkSession, folder: str, kept: Collection[int] = ()) -> Standing | None:
    """Return where the checkpoint stands; None if no batch was planned. Batches of `kept` are done in any case."""
    texts = {int(name): text for name, text in read_texts(spark, f"{folder}/checkpoint/offsets") if name.isdigit()}
    if not texts:
        return None
    committed = {name for name, _ in read_texts(spark, f"{folder}/checkpoint/commits")}
    last = max(texts)
    end = _ends(texts[last])
    if last in kept or str(last) in committed:
        return Standing(end, None)
    return Standing(_ends(texts[last - 1]) if last - 1 in texts else {}, end)


def _ends(text: str) -> dict[str, Any]:
    """Return the offsets of one file of Spark's log: they are its last line."""
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


def done(spark: SparkSession, folder: str) -> set[int]:
    texts = read_texts(spark, f"{folder}/done")
    return {int(name) for name, _ in texts if name.isdigit()}


def mark_done(spark: SparkSession, folder: str, step: int, what: Mapping[str, Any]) -> None:
    write_text(spark, f"{folder}/done/{step}", json.dumps(dict(what)))
