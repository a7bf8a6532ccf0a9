"""The options of `format("rocketmq")`: declared once, read from Spark's texts, wrong ones named with the nearest known.

Names follow Spark's Kafka connector (docs/spark.md has the table, made from here). Spark hands keys over in lower case
and in any; they are compared without case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import Flag, auto
from typing import Any, TypeVar

from ..errors import ConfigError
from . import option_kinds as kinds
from .codec.bad_records import FAILFAST, MODES
from .read.offsets import GROUP, LATEST, OffsetSpec, Queue, read_assign, read_times, read_where

O = TypeVar("O")  # noqa: E741
PULL_GROUP = "pyromq-spark"  # our broker gives this group larger pulls
# Names of Spark's Kafka connector, and what stands for them here.
_KAFKAS = {
    "kafka.bootstrap.servers": "nameServer",
    "subscribe": "topic",
    "subscribepattern": "topicPattern",
    "kafka.group.id": "consumerGroup",
    "groupidprefix": "consumerGroup",
    "kafkaconsumer.polltimeoutms": "pullTimeoutMs",
    "includeheaders": "the column properties, left out by .schema(...)",
    "kafka.security.protocol": "tls, accessKey and secretKey",
}
_SPARKS_OWN = {"checkpointlocation", "queryname", "outputmode"}  # come along with a stream's options


class Use(Flag):
    """What an option means something for."""

    BATCH = auto()
    STREAM = auto()
    OFFLINE = auto()
    WRITE = auto()
    PULL = BATCH | STREAM
    READ = PULL | OFFLINE
    NET = PULL | WRITE
    ALL = READ | WRITE


_WORDS = {Use.BATCH: "batch reads", Use.STREAM: "streams", Use.OFFLINE: "reads of store files", Use.WRITE: "writes"}


@dataclass(frozen=True, slots=True)
class Declared:
    """One option as it is declared."""

    name: str
    read: Callable[[str], Any]
    uses: Use
    help: str
    shown: str  # default, in words


def option(name: str, read: Callable[[str], Any], default: Any, uses: Use, help: str, shown: str = "") -> Any:
    shown = shown or (
        "" if default in (None, ()) else str(default).lower() if isinstance(default, bool) else str(default)
    )
    return field(default=default, metadata={"option": Declared(name, read, uses, help, shown)})


@dataclass(frozen=True, slots=True, kw_only=True)
class NetOptions:
    """How to reach a cluster. Pickled into every task."""

    name_server: tuple[str, ...] = option("nameServer", kinds.addresses, (), Use.NET, "host:port of the name servers")
    connect_timeout_ms: int = option("connectTimeoutMs", kinds.whole(1), 3_000, Use.NET, "for a connection")
    call_timeout_ms: int = option("callTimeoutMs", kinds.whole(1), 15_000, Use.NET, "for one answer")
    access_key: str = option("accessKey", kinds.text, "", Use.NET, "requests are signed with it (ACL)")
    secret_key: str = option("secretKey", kinds.text, "", Use.NET, "its secret, which is not sent")
    security_token: str = option("securityToken", kinds.text, "", Use.NET, "of a temporary access key")
    tls: bool = option("tls", kinds.yes_or_no, False, Use.NET, "connect by TLS")
    tls_verify: str = option(
        "tls.verify", kinds.one_of("full", "ca", "none"), "full", Use.NET, "what to check of the certificate"
    )
    tls_ca: str = option("tls.ca", kinds.text, "", Use.NET, "file with who signs certificates; the system's otherwise")
    tls_certificate: str = option("tls.certificate", kinds.text, "", Use.NET, "our own certificate")
    tls_key: str = option("tls.key", kinds.text, "", Use.NET, "its key")
    tls_key_password: str = option("tls.keyPassword", kinds.text, "", Use.NET, "of the key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(NetOptions):
    """A read from brokers (batch, stream) or from files (offline)."""

    store: tuple[str, ...] = option(
        "store", kinds.words, (), Use.OFFLINE, "store folders to scan instead of asking brokers"
    )
    topic: tuple[str, ...] = option("topic", kinds.words, (), Use.READ, "topics")
    topic_pattern: str = option(
        "topicPattern", kinds.pattern, "", Use.READ, "topics whose whole name this expression fits"
    )
    assign: frozenset[Queue] = option("assign", read_assign, frozenset(), Use.PULL, "queues, as JSON", "none")
    starting_offsets: OffsetSpec | None = option(
        "startingOffsets", read_where, None, Use.PULL, "earliest, latest, group or JSON", "earliest; of streams latest"
    )
    starting_timestamp: int | None = option(
        "startingTimestamp", kinds.time_ms, None, Use.READ, "begin with what was stored then or later"
    )
    starting_times: OffsetSpec | None = option(
        "startingOffsetsByTimestamp", read_times, None, Use.PULL, "the same by topic or queue, as JSON"
    )
    starting_strategy: str = option(
        "startingOffsetsByTimestampStrategy",
        kinds.one_of("error", "latest"),
        "error",
        Use.PULL,
        "where nothing was stored since that time",
    )
    ending_offsets: OffsetSpec | None = option("endingOffsets", read_where, None, Use.BATCH, "latest or JSON", "latest")
    ending_timestamp: int | None = option(
        "endingTimestamp", kinds.time_ms, None, Use.BATCH | Use.OFFLINE, "end before what was stored then or later"
    )
    ending_times: OffsetSpec | None = option(
        "endingOffsetsByTimestamp", read_times, None, Use.BATCH, "the same by topic or queue, as JSON"
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        kinds.yes_or_no,
        True,
        Use.READ,
        "fail if messages are gone (or damaged, offline) before they were read",
    )
    mode: str = option(
        "mode",
        kinds.one_of(*MODES),
        FAILFAST,
        Use.READ,
        "a record that cannot be read (bad compression, broken lengths) fails the read (FAILFAST), is left out "
        "(DROPMALFORMED), or is a row whose body is null (PERMISSIVE)",
    )
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger", kinds.whole(1), None, Use.STREAM, "most messages of a micro-batch"
    )
    min_offsets_per_trigger: int | None = option(
        "minOffsetsPerTrigger", kinds.whole(1), None, Use.STREAM, "wait for so many messages"
    )
    max_trigger_delay_s: float = option(
        "maxTriggerDelay", kinds.duration_s, 900.0, Use.STREAM, "wait no longer than that for them", "15m"
    )
    min_partitions: int | None = option(
        "minPartitions", kinds.whole(1), None, Use.READ, "least number of tasks: long queues are split"
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition", kinds.whole(1), None, Use.PULL, "most messages of a task"
    )
    consumer_group: str = option(
        "consumerGroup", kinds.text, "", Use.PULL, "group whose offsets are used and published"
    )
    pull_group: str = option("pullGroup", kinds.text, PULL_GROUP, Use.PULL, "group in whose name is pulled")
    tags: str = option(
        "tags", kinds.text, "", Use.PULL, "only messages with one of these tags (a || b), chosen by the broker"
    )
    sql: str = option(
        "sql", kinds.text, "", Use.PULL, "only messages that this SQL expression fits, chosen by the broker"
    )
    pull_timeout_ms: int = option(
        "pullTimeoutMs", kinds.whole(1), 60_000, Use.PULL, "without progress, until a task fails"
    )
    pull_batch_size: int = option(
        "pullBatchSize", kinds.whole(1, 1 << 20), 2_048, Use.PULL, "messages asked for at once"
    )
    fetch_retries: int = option(
        "fetchOffset.numRetries", kinds.whole(0), 3, Use.PULL, "further tries to ask for offsets"
    )
    fetch_pause_ms: int = option("fetchOffset.retryIntervalMs", kinds.whole(0), 1_000, Use.PULL, "between them")
    batch_rows: int = option(
        "arrowBatchRows", kinds.whole(1, 1 << 20), 8_192, Use.READ, "rows that Spark gets at once, about"
    )
    filter_pushdown: bool = option(
        "filterPushdown",
        kinds.yes_or_no,
        False,
        Use.BATCH,
        "take filters on topic, queue, offset and time from the query",
    )
    content: str = option(
        "content", kinds.one_of("messages", "damage"), "messages", Use.OFFLINE, "rows are messages, or what is damaged"
    )
    verify_crc: bool = option("verifyCrc", kinds.yes_or_no, True, Use.OFFLINE, "check every record's CRC")

    @property
    def tag_list(self) -> tuple[str, ...]:
        parts = tuple(part.strip() for part in self.tags.split("||") if part.strip())
        return () if "*" in parts else parts


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(NetOptions):
    """A write to brokers."""

    topic: str = option("topic", kinds.text, "", Use.WRITE, "where rows go that have no column topic of their own")
    producer_group: str = option(
        "producerGroup", kinds.text, "pyromq-spark-writer", Use.WRITE, "as brokers see the sender"
    )
    send_timeout_ms: int = option(
        "sendTimeoutMs", kinds.whole(1), 60_000, Use.WRITE, "for a request and its repeats, until a task fails"
    )
    max_batch_bytes: int = option("maxBatchBytes", kinds.whole(1, 4 << 20), 1 << 20, Use.WRITE, "of one request")
    max_rate: int | None = option("maxMessagesPerSecond", kinds.whole(1), None, Use.WRITE, "of each task")
    once: str = option(
        "sendOnce",
        kinds.one_of("auto", "required", "off"),
        "auto",
        Use.WRITE,
        "repeats are dropped by brokers with a duplicate window",
    )
    origin: str = option(
        "origin", kinds.text, "", Use.WRITE, "name of a batch write: done again under it, its rows have the same ids"
    )


def declared(kind: type) -> dict[str, tuple[str, Declared]]:
    """Return field name and declaration by the option's name in lower case."""
    return {each.metadata["option"].name.lower(): (each.name, each.metadata["option"]) for each in fields(kind)}


def net_part(given: Mapping[str, str]) -> dict[str, str]:
    """Return those of the options that say how to reach a cluster."""
    known = declared(NetOptions)
    return {name: value for name, value in given.items() if name.lower() in known}


def read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    """Read the options. ConfigError names option, value, what is allowed, and the nearest known option."""
    if given.get("store") is not None or any(key.lower() == "store" for key in given):
        use = _offline(use)
    options = _read(ReadOptions, given, use)
    _check_read(options, use)
    return options


def connection_options(given: Mapping[str, str], use: Use) -> NetOptions:
    """Return how to reach a cluster, and nothing else."""
    options = _read(NetOptions, given, use)
    _check_net(options)
    return options


def write_options(given: Mapping[str, str]) -> WriteOptions:
    options = _read(WriteOptions, given, Use.WRITE)
    _check_net(options)
    return options


def _offline(use: Use) -> Use:
    if use is Use.STREAM:
        raise ConfigError(
            "store: files are read by batch reads (spark.read), not by streams; a stream needs nameServer"
        )
    return Use.OFFLINE


def _read(kind: type[O], given: Mapping[str, str], use: Use) -> O:
    known = declared(kind)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key.lower() in _SPARKS_OWN:
            continue
        if key.lower() not in known:
            raise _unknown(key, value, known, use)
        name, found = known[key.lower()]
        if not found.uses & use:
            uses = " and ".join(text for each, text in _WORDS.items() if each & found.uses)
            raise ConfigError(
                f"{found.name} = {value!r}: this option is for {uses}, not for {_WORDS[use]}; leave it out"
            )
        try:
            values[name] = found.read(str(value))
        except ValueError as fault:
            raise ConfigError(f"{found.name} = {value!r}: allowed is {fault}") from None
    return kind(**values)


def _unknown(key: str, value: str, known: Mapping[str, tuple[str, Declared]], use: Use) -> ConfigError:
    if key.lower() == "path":
        return ConfigError(f"load({value!r}): messages have no path; name topics by topic, or store folders by store")
    other = declared(WriteOptions if use is not Use.WRITE else ReadOptions)
    if key.lower() in other:
        kind = "writes" if use is not Use.WRITE else "reads"
        return ConfigError(f"{other[key.lower()][1].name} = {value!r}: this option is for {kind}; leave it out")
    if key.lower() in _KAFKAS:
        return ConfigError(f"{key} = {value!r}: that is Kafka's; here it is {_KAFKAS[key.lower()]}")
    nearest = get_close_matches(key.lower(), known, 1, 0.5)
    hint = f"did you mean {known[nearest[0]][1].name}?" if nearest else "see docs/spark.md for the options"
    return ConfigError(f"{key} = {value!r}: there is no such option; {hint}")


def _check_net(options: NetOptions) -> None:
    if bool(options.access_key) != bool(options.secret_key) or (options.security_token and not options.access_key):
        raise ConfigError("accessKey, secretKey: they belong together; give both (and securityToken, if any) or none")
    if not options.name_server:
        raise ConfigError("nameServer: it is needed; give host:port, such as 127.0.0.1:9876")


def _check_read(options: ReadOptions, use: Use) -> None:
    if use is not Use.OFFLINE:
        _check_net(options)
        _check_one(
            "which messages",
            {"topic": options.topic, "topicPattern": options.topic_pattern, "assign": options.assign},
            1,
        )
    elif options.topic and options.topic_pattern:
        raise ConfigError("topic and topicPattern: both say which topics; give one of them")
    _check_one(
        "where to begin",
        {
            "startingOffsets": options.starting_offsets,
            "startingTimestamp": options.starting_timestamp,
            "startingOffsetsByTimestamp": options.starting_times,
        },
    )
    _check_one(
        "where to end",
        {
            "endingOffsets": options.ending_offsets,
            "endingTimestamp": options.ending_timestamp,
            "endingOffsetsByTimestamp": options.ending_times,
        },
    )
    _check_words(options, use)
    if options.tags and options.sql:
        raise ConfigError("tags and sql: a broker filters by one of them; give one, and the rest as a Spark filter")
    low, high = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if low is not None and high is not None and low > high:
        raise ConfigError(f"minOffsetsPerTrigger = {low}: it is more than maxOffsetsPerTrigger = {high}")


def _check_words(options: ReadOptions, use: Use) -> None:
    start, end = options.starting_offsets, options.ending_offsets
    if start is not None and start.word == GROUP and not options.consumer_group:
        raise ConfigError("startingOffsets = 'group': consumerGroup says which group; give it, or earliest or latest")
    if end is not None and not end.offsets and end.word != LATEST:
        raise ConfigError(f"endingOffsets = {end.word!r}: allowed is latest or JSON with offsets")
    if use is Use.BATCH and start is not None and start.word == LATEST:
        raise ConfigError(
            "startingOffsets = 'latest': a batch read from there has nothing; give earliest, group or JSON"
        )


def _check_one(what: str, given: Mapping[str, object], least: int = 0) -> None:
    names = [name for name, value in given.items() if value not in (None, (), "", frozenset())]
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)}: each says {what}; give one of them")
    if len(names) < least:
        raise ConfigError(f"{', '.join(given)}: one of them is needed, to say {what}")
