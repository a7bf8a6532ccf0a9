"""The options of `format("rocketmq")`: declared once, read from Spark's texts, wrong ones named with the nearest known.

Names follow Spark's Kafka connector (docs/spark.md has the table, made from here). Spark hands keys over in lower case
and in any; they are compared without case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import Flag, auto
from functools import partial
from typing import Any, TypeVar

from ..errors import ConfigError
from .codec.bad_records import FAILFAST, MODES
from .option_kinds import addresses, duration_s, one_of, pattern, text, time_ms, whole, words, yes_or_no
from .read.offsets import GROUP, LATEST, OffsetSpec, Queue, read_assign, read_times, read_where

PULL_GROUP = "pyromq-spark"  # our broker gives this group larger pulls
# Names of Spark's Kafka connector, as they are spelt there, and what stands for them here.
_KAFKAS = {
    "kafka.bootstrap.servers": "nameServer",
    "subscribe": "topic",
    "subscribePattern": "topicPattern",
    "kafka.group.id": "consumerGroup",
    "groupIdPrefix": "consumerGroup",
    "kafkaConsumer.pollTimeoutMs": "pullTimeoutMs",
    "includeHeaders": "the column properties, left out by .schema(...)",
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
    name: str
    read: Callable[[str], Any]
    uses: Use
    help: str
    shown: str  # default, in words


def option(name: str, read: Callable[[str], Any], default: Any, help: str, uses: Use, shown: str = "") -> Any:
    if not shown and default not in (None, ()):
        shown = str(default).lower() if isinstance(default, bool) else str(default)
    return field(default=default, metadata={"option": Declared(name, read, uses, help, shown)})


net_option, pull_option, write_option = (partial(option, uses=uses) for uses in (Use.NET, Use.PULL, Use.WRITE))


@dataclass(frozen=True, slots=True, kw_only=True)
class NetOptions:
    """How to reach a cluster. Pickled into every task."""

    name_server: tuple[str, ...] = net_option("nameServer", addresses, (), "host:port of the name servers")
    connect_timeout_ms: int = net_option("connectTimeoutMs", whole(1), 3_000, "for a connection")
    call_timeout_ms: int = net_option("callTimeoutMs", whole(1), 15_000, "for one answer")
    access_key: str = net_option("accessKey", text, "", "requests are signed with it (ACL)")
    secret_key: str = net_option("secretKey", text, "", "its secret, which is not sent")
    security_token: str = net_option("securityToken", text, "", "of a temporary access key")
    tls: bool = net_option("tls", yes_or_no, False, "connect by TLS")
    tls_verify: str = net_option("tls.verify", one_of("full", "ca", "none"), "full", "what to check of the certificate")
    tls_ca: str = net_option("tls.ca", text, "", "file with who signs certificates; the system's otherwise")
    tls_certificate: str = net_option("tls.certificate", text, "", "our own certificate")
    tls_key: str = net_option("tls.key", text, "", "its key")
    tls_key_password: str = net_option("tls.keyPassword", text, "", "of the key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(NetOptions):
    """A read from brokers (batch, stream) or from files (offline)."""

    store: tuple[str, ...] = option("store", words, (), "store folders to scan instead of asking brokers", Use.OFFLINE)
    topic: tuple[str, ...] = option("topic", words, (), "topics", Use.READ)
    topic_pattern: str = option("topicPattern", pattern, "", "topics whose whole name this expression fits", Use.READ)
    assign: frozenset[Queue] = pull_option("assign", read_assign, frozenset(), "queues, as JSON", shown="none")
    starting_offsets: OffsetSpec | None = option(
        "startingOffsets", read_where, None, "earliest, latest, group or JSON", Use.PULL, "earliest; of streams latest"
    )
    starting_timestamp: int | None = option(
        "startingTimestamp", time_ms, None, "begin with what was stored then or later", Use.READ
    )
    starting_times: OffsetSpec | None = option(
        "startingOffsetsByTimestamp", read_times, None, "the same by topic or queue, as JSON", Use.PULL
    )
    starting_strategy: str = pull_option(
        "startingOffsetsByTimestampStrategy",
        one_of("error", "latest"),
        "error",
        "where nothing was stored since that time",
    )
    ending_offsets: OffsetSpec | None = option("endingOffsets", read_where, None, "latest or JSON", Use.BATCH, "latest")
    ending_timestamp: int | None = option(
        "endingTimestamp", time_ms, None, "end before what was stored then or later", Use.BATCH | Use.OFFLINE
    )
    ending_times: OffsetSpec | None = option(
        "endingOffsetsByTimestamp", read_times, None, "the same by topic or queue, as JSON", Use.BATCH
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        yes_or_no,
        True,
        "fail if messages are gone (or damaged, offline) before they were read",
        Use.READ,
    )
    mode: str = option(
        "mode",
        one_of(*MODES),
        FAILFAST,
        "a record that cannot be read (bad compression, broken lengths) fails the read (FAILFAST), is left out "
        "(DROPMALFORMED), or is a row whose body is null (PERMISSIVE)",
        Use.READ,
    )
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger", whole(1), None, "most messages of a micro-batch", Use.STREAM
    )
    min_offsets_per_trigger: int | None = option(
        "minOffsetsPerTrigger", whole(1), None, "wait for so many messages", Use.STREAM
    )
    max_trigger_delay_s: float = option(
        "maxTriggerDelay", duration_s, 900.0, "wait no longer than that for them", Use.STREAM, "15m"
    )
    min_partitions: int | None = option(
        "minPartitions", whole(1), None, "least number of tasks: long queues are split", Use.READ
    )
    max_records_per_partition: int | None = pull_option(
        "maxRecordsPerPartition", whole(1), None, "most messages of a task"
    )
    consumer_group: str = pull_option("consumerGroup", text, "", "group whose offsets are used and published")
    pull_group: str = pull_option("pullGroup", text, PULL_GROUP, "group in whose name is pulled")
    tags: str = pull_option("tags", text, "", "only messages with one of these tags (a || b), chosen by the broker")
    sql: str = pull_option("sql", text, "", "only messages that this SQL expression fits, chosen by the broker")
    pull_timeout_ms: int = pull_option("pullTimeoutMs", whole(1), 60_000, "without progress, until a task fails")
    pull_batch_size: int = pull_option("pullBatchSize", whole(1, 1 << 20), 2_048, "messages asked for at once")
    fetch_retries: int = pull_option("fetchOffset.numRetries", whole(0), 3, "further tries to ask for offsets")
    fetch_pause_ms: int = pull_option("fetchOffset.retryIntervalMs", whole(0), 1_000, "between them")
    batch_rows: int = option(
        "arrowBatchRows", whole(1, 1 << 20), 8_192, "rows that Spark gets at once, about", Use.READ
    )
    filter_pushdown: bool = option(
        "filterPushdown",
        yes_or_no,
        True,
        "take filters on topic, queue, offset, time and tag from the query",
        Use.BATCH | Use.OFFLINE,
    )
    content: str = option(
        "content", one_of("messages", "damage"), "messages", "rows are messages, or what is damaged", Use.OFFLINE
    )
    verify_crc: bool = option("verifyCrc", yes_or_no, True, "check every record's CRC", Use.OFFLINE)

    @property
    def tag_list(self) -> tuple[str, ...]:
        parts = tuple(part.strip() for part in self.tags.split("||") if part.strip())
        return () if "*" in parts else parts


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(NetOptions):
    topic: str = write_option("topic", text, "", "where rows go that have no column topic of their own")
    producer_group: str = write_option("producerGroup", text, "pyromq-spark-writer", "as brokers see the sender")
    send_timeout_ms: int = write_option(
        "sendTimeoutMs", whole(1), 60_000, "for a request and its repeats, until a task fails"
    )
    max_batch_bytes: int = write_option("maxBatchBytes", whole(1, 4 << 20), 1 << 20, "of one request")
    max_rate: int | None = write_option("maxMessagesPerSecond", whole(1), None, "of each task")
    once: str = write_option(
        "sendOnce", one_of("auto", "required", "off"), "auto", "repeats are dropped by brokers with a duplicate window"
    )
    origin: str = write_option(
        "origin", text, "", "name of a batch write: done again under it, its rows have the same ids"
    )


O = TypeVar("O", bound=NetOptions)  # noqa: E741


def declared(kind: type) -> dict[str, tuple[str, Declared]]:
    """Return field name and declaration by the option's name in lower case."""
    return {each.metadata["option"].name.lower(): (each.name, each.metadata["option"]) for each in fields(kind)}


def net_part(given: Mapping[str, str]) -> dict[str, str]:
    """Return those of the options that say how to reach a cluster."""
    known = declared(NetOptions)
    return {name: value for name, value in given.items() if name.lower() in known}


def read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    """Read the options. ConfigError names option, value, what is allowed, and the nearest known option."""
    if any(key.lower() == "store" for key in given):
        if use is Use.STREAM:
            raise _OfAnotherUse(
                "store: files are read by batch reads (spark.read), not by streams; a stream needs nameServer"
            )
        use = Use.OFFLINE
    options = _read(ReadOptions, given, use)
    _check_read(options, use)
    return options


def connection_options(given: Mapping[str, str], use: Use) -> NetOptions:
    """Return how to reach a cluster, and nothing else."""
    return _read(NetOptions, given, use)


def write_options(given: Mapping[str, str]) -> WriteOptions:
    return _read(WriteOptions, given, Use.WRITE)


def check_options(given: Mapping[str, str]) -> None:
    """Raise ConfigError for an option that no read or write knows, and for a value that none can read."""
    if any(key.lower().startswith("option.") for key in given):
        return  # CREATE TABLE, with all properties of a table
    reads, writes = declared(ReadOptions), declared(WriteOptions)
    for key, value in given.items():
        found = [known[key.lower()][1] for known in (reads, writes) if key.lower() in known]
        if found:
            _check_value(found, value)
        elif key.lower() not in _SPARKS_OWN:
            raise _unknown(key, value, writes | reads, Use.READ)


def check_read(given: Mapping[str, str]) -> None:
    """Raise ConfigError for options that neither a batch read nor a stream takes: which it is, Spark does not say."""
    if not any(key.lower().startswith("option.") for key in given):  # CREATE TABLE
        any_read_options(given)


def batch_part(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that only streams have."""
    known = declared(ReadOptions)
    return {
        name: value
        for name, value in given.items()
        if name.lower() not in known or known[name.lower()][1].uses & ~Use.STREAM
    }


def any_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the options of a batch read, or else those of a stream. ConfigError if they are those of neither."""
    faults: list[ConfigError] = []
    for use in (Use.BATCH, Use.STREAM):
        try:
            return read_options(given, use)
        except ConfigError as fault:
            faults.append(fault)
    raise next((each for each in faults if not isinstance(each, _OfAnotherUse)), faults[0]) from None


class _OfAnotherUse(ConfigError):
    """An option that means something, and nothing for this use."""


def _check_value(found: list[Declared], value: str) -> None:
    faults = []
    for each in found:
        try:
            each.read(str(value))
            return
        except ValueError as fault:
            faults.append(fault)
    raise ConfigError(f"{found[0].name} = {value!r}: allowed is {faults[0]}") from None


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
            uses = " and ".join(said for each, said in _WORDS.items() if each & found.uses)
            raise _OfAnotherUse(
                f"{found.name} = {value!r}: this option is for {uses}, not for {_WORDS[use]}; leave it out"
            )
        try:
            values[name] = found.read(str(value))
        except ValueError as fault:
            raise ConfigError(f"{found.name} = {value!r}: allowed is {fault}") from None
    options = kind(**values)
    if use is not Use.OFFLINE:
        _check_net(options)
    return options


def _unknown(key: str, value: str, known: Mapping[str, tuple[str, Declared]], use: Use) -> ConfigError:
    if key.lower() == "path":
        return ConfigError(f"load({value!r}): messages have no path; name topics by topic, or store folders by store")
    other = declared(WriteOptions if use is not Use.WRITE else ReadOptions)
    if key.lower() in other:
        kind = "writes" if use is not Use.WRITE else "reads"
        return ConfigError(f"{other[key.lower()][1].name} = {value!r}: this option is for {kind}; leave it out")
    for name, here in _KAFKAS.items():
        if key.lower() == name.lower():
            return ConfigError(f"{name} = {value!r}: that is Kafka's; here it is {here}")
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
        _check_one(options, "which messages", "topic", "topicPattern", "assign", least=1)
    elif options.topic and options.topic_pattern:
        raise ConfigError("topic and topicPattern: both say which topics; give one of them")
    _check_one(options, "where to begin", "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    _check_one(options, "where to end", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
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


def _check_one(options: ReadOptions, what: str, *names: str, least: int = 0) -> None:
    known = declared(ReadOptions)
    given = [name for name in names if getattr(options, known[name.lower()][0]) not in (None, (), "", frozenset())]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)}: each says {what}; give one of them")
    if len(given) < least:
        raise ConfigError(f"{', '.join(names)}: one of them is needed, to say {what}")
