"""The values that fuzzed frames are made of: plausible ones by the name of their field, and hostile ones for any field.

`World` holds what the frames speak of. The canary's names are not among them, so nothing that a frame deletes, forbids
or wipes is the canary's. Addresses are loopback or no addresses at all: no daemon is made to call strangers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyromq.model import names
from pyromq.model.message import Property

TOPICS = tuple(f"fuzz-topic-{number}" for number in range(12))
GROUPS = tuple(f"fuzz-group-{number}" for number in range(8))
CLIENTS = tuple(f"127.0.0.1@fuzz-{number}" for number in range(6))
BROKERS = tuple(f"fuzz-broker-{number}" for number in range(5))
CLUSTERS = ("fuzz-cluster", "DefaultCluster", "other-cluster")
SYSTEM_TOPICS = (
    *sorted(names.SYSTEM_TOPICS),
    *(names.REVIVE_PREFIX + "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_SYNC_BROKER_MEMBER_x"),
)
PROPERTY_NAMES = (
    *sorted(value for name, value in vars(Property).items() if name.isupper()),
    *("PYRO_DEAD_MS", "PYRO_DEAD_TOPIC", "INSTANCE_ID", "EXTEND_UNIQ_INFO", "a", "colour", "né", "名前"),
)
NUMBERS = (
    *("0", "1", "-1", "2", "7", "16", "18", "19", "255", "32767", "32768", "65536", "+1", "-0", "00", "007"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616"),
    *(
        "1e3",
        "1.5",
        "0x10",
        "1_000",
        " 1",
        "1 ",
        "NaN",
        "Infinity",
        "-",
        "²",
        "٣",
        "１２",
        "9" * 5000,
        "-" + "9" * 5000,
    ),
    *("1700000000000", "253402300800000", "86400000", "31536000000"),
)
# The ones that most often break what reads them.
SHARP = (
    *("", "²", "9" * 5000, "-1", "0", "abc", "1_000", "2147483647", "2147483648", "9223372036854775807", "1e9"),
    *("9223372036854775808", "\x00", "\x01", "1\x012\x02", "\ud800", "😀", "a" * 100_000, "a" * 32_000, "\x1b[2J"),
)
TEXTS = (
    *("", " ", "*", "null", "true", "TRUE", "false", "a" * 127, "a" * 128, "a" * 255, "a" * 256, "b" * 32768),
    *(
        "\x00",
        "a\x00b",
        "\x01",
        "\x02",
        "a\x01b\x02",
        "\x02\x01\x02",
        "\x1b]0;owned\x07",
        "\x1b[2J",
        "a\nb",
        "a\r\nb: c",
    ),
    *(
        "😀",
        "😀" * 4000,
        "\u202e",
        "\ufeff",
        "\ud800",
        "a\udfffb",
        "né",
        "\u2028",
        "%s%n%x",
        "${jndi:x}",
        "{}",
        "[]",
        '"',
    ),
    *("../../etc/passwd", "..", ".", "/", "//", "\\", "C:\\x", "~", "a/b", "a" * 100_000, "|".join("tag" * 300)),
    *("%RETRY%", "%DLQ%", "%RETRY%%RETRY%", "%LMQ%", "%SYS%", "||", "a||b", "a || ", "a@b@c", "a^b", "0:0:0"),
    *("127.0.0.1:1", "127.0.0.1", ":", "127.0.0.1:99999", "127.0.0.1:-1", "[::1]:1", "[::1", "\x1b:1", "127.0.0.1:²"),
    *("a > 1", "a IS NOT NULL AND (b = 'x' OR c BETWEEN 1 AND 2)", "(" * 500, "a CONTAINS 'b'", "1" * 400 + " > a"),
    *("+message.type=NORMAL", "+message.type=DELAY,-x", "+queue.type=BatchCQ", "+delete.policy=COMPACTION", "+a=b,-"),
)


@dataclass
class World:
    """What a campaign has learned from answers, and the folder beside the stores where nothing may ever appear."""

    outside: Path
    offsets: list[int] = field(default_factory=lambda: [0, 1, 2, 10])  # of queues
    places: list[int] = field(default_factory=lambda: [0, 100])  # in the commit log
    ids: list[str] = field(default_factory=lambda: ["7F0000010000", "7F00000100002A9F0000000000000000"])
    handles: list[str] = field(default_factory=lambda: ["djE="])
    keys: list[str] = field(default_factory=lambda: ["key-0"])
    tick: int = 0  # for names that are new

    def learn(self, kept: list[int], value: int) -> None:
        kept.append(value)
        del kept[:-40]

    def learn_text(self, kept: list[str], value: str) -> None:
        kept.append(value)
        del kept[:-40]

    @property
    def escapes(self) -> tuple[str, ...]:
        """Paths that lead out of any folder of a store, to where the campaign looks at the end."""
        up = [f"{'../' * depth}outside/escaped" for depth in range(1, 6)]
        return (str(self.outside / "escaped"), f"file://{self.outside}/escaped", *up)


def hostile(rng: random.Random, world: World) -> str:
    """Any value, for any field."""
    aim = rng.random()
    if aim < 0.30:
        return rng.choice(SHARP)
    if aim < 0.60:
        return rng.choice(NUMBERS)
    if aim < 0.88:
        return rng.choice(TEXTS)
    if aim < 0.92:
        return rng.choice(world.escapes)
    return rng.choice(SYSTEM_TOPICS + names.SYSTEM_GROUPS + TOPICS + GROUPS)


def topic(rng: random.Random, world: World) -> str:
    aim = rng.random()
    if aim < 0.8:
        return rng.choice(TOPICS)
    if aim < 0.86:
        return rng.choice((names.RETRY_PREFIX, names.DLQ_PREFIX)) + rng.choice(GROUPS)
    return rng.choice(SYSTEM_TOPICS)


def offset(rng: random.Random, world: World) -> str:
    return str(rng.choice(world.offsets) + rng.choice((0, 0, 0, 1, -1, 1000)))


def place(rng: random.Random, world: World) -> str:
    return str(rng.choice(world.places) + rng.choice((0, 0, 0, 0, 1, -1, 4096)))


def properties(rng: random.Random, world: World, pairs: int | None = None) -> str:
    """The text of a message's properties; in a third of them something is hostile."""
    named: list[tuple[str, str]] = [("UNIQ_KEY", f"{rng.getrandbits(128):032X}"), ("KEYS", rng.choice(world.keys))]
    if rng.random() < 0.3:
        named.append(("TAGS", rng.choice(("a", "b", "tag-c"))))
    for _ in range(rng.choice((0, 0, 1, 2)) if pairs is None else pairs):
        name = rng.choice(PROPERTY_NAMES)
        value = hostile(rng, world) if rng.random() < 0.7 else rng.choice(("1", "2", "true", "a", "500", "3"))
        named.append((name, value[:30_000]))
    rng.shuffle(named)
    return "".join(f"{name}\x01{value}\x02" for name, value in named)


def _one_of(*values: str) -> Callable[[random.Random, World], str]:
    return lambda rng, _: rng.choice(values)


def _attributes(rng: random.Random, _: World) -> str:
    return rng.choice(("", "", "+message.type=NORMAL", "+message.type=DELAY", "+message.type=TRANSACTION", "+a=b"))


# By the field's name on the wire, in lower case. A field that is not here gets a value of its type.
PLAUSIBLE: dict[str, Callable[[random.Random, World], str]] = {
    "topic": topic,
    "topiclist": lambda rng, world: ";".join(rng.choice(TOPICS) for _ in range(3)),
    "defaulttopic": _one_of("TBW102", "TBW102", "TBW102", *TOPICS),
    "origintopic": topic,
    "namespace": _one_of("fuzz-space", "ORDER_TOPIC_CONFIG", "other"),
    "clustername": _one_of(*CLUSTERS),
    "cluster": _one_of(*CLUSTERS),
    "brokername": _one_of(*BROKERS),
    "brokeraddr": _one_of("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"),
    "haserveraddr": _one_of("127.0.0.1:4", ""),
    "clientid": _one_of(*CLIENTS),
    "key": lambda rng, world: rng.choice(world.keys),
    "properties": properties,
    "attributes": _attributes,
    "queueoffset": offset,
    "commitoffset": offset,
    "transtatetableoffset": offset,
    "commitlogoffset": place,
    "offset": place,
    "index": offset,
    "id": lambda rng, world: rng.choice(world.ids),
    "from": _one_of("0", "1", "100"),
    "most": _one_of("10", "100"),
    "msgid": lambda rng, world: rng.choice(world.ids),
    "originmsgid": lambda rng, world: rng.choice(world.ids),
    "transactionid": lambda rng, world: rng.choice(world.ids),
    "recallhandle": lambda rng, world: rng.choice(world.handles),
    "queueid": _one_of("0", "0", "1", "2", "3", "7", "-1"),
    "sysflag": _one_of("0", "0", "0", "1", "4", "8", "12", "2", "6", "7"),
    "commitorrollback": _one_of("8", "12", "0"),
    "delaylevel": _one_of("0", "1", "2", "-1", "3"),
    "maxmsgnums": _one_of("1", "32", "1024"),
    "maxnum": _one_of("1", "32", "64"),
    "suspendtimeoutmillis": _one_of("0", "200", "1500"),
    "subscription": _one_of("*", "a", "a||b", "a || tag-c", ""),
    "expressiontype": _one_of("TAG", "TAG", "SQL92"),
    "borntimestamp": _one_of("1700000000000", "1763300000000"),
    "begintimestamp": _one_of("0", "1763300000000"),
    "endtimestamp": _one_of("9223372036854775807", "2000000000000"),
    "timestamp": _one_of("0", "1763300000000", "-1", "-2", "2000000000000"),
    "defaulttopicqueuenums": _one_of("4", "8"),
    "readqueuenums": _one_of("1", "4", "8"),
    "writequeuenums": _one_of("1", "4", "8"),
    "perm": _one_of("6", "6", "4", "2"),
    "topicfiltertype": _one_of("SINGLE_TAG", "MULTI_TAG"),
    "statsname": _one_of("TOPIC_PUT_NUMS", "GROUP_GET_NUMS", "SNDBCK_PUT_NUMS", "BROKER_PUT_NUMS"),
    "statskey": _one_of(*TOPICS, f"{TOPICS[0]}@{GROUPS[0]}"),
    "configtype": _one_of("topics", "subscriptionGroups", "consumerOffsets"),
    "lo": _one_of("false", "true"),
    "bname": _one_of(*BROKERS),
    "reconsumetimes": _one_of("0", "1", "3"),
    "maxreconsumetimes": _one_of("16", "3", "0", "-1"),
    "flag": _one_of("0", "1", "7"),
}
for _group_field in ("group", "consumergroup", "producergroup", "groupname", "srcgroup", "destgroup", "comparegroup"):
    PLAUSIBLE[_group_field] = _one_of(*GROUPS, *GROUPS, *names.SYSTEM_GROUPS)


def plausible(rng: random.Random, world: World, name: str, kind: str) -> str:
    """A value that an honest client could send in the field `name`, whose type is `kind`."""
    if (make := PLAUSIBLE.get(name.lower())) is not None:
        return make(rng, world)
    if kind == "bool":
        return rng.choice(("true", "false"))
    if kind == "int":
        return rng.choice(("0", "1", "3", "1000", "-1"))
    return rng.choice((f"text-{rng.randrange(9)}", rng.choice(TOPICS), rng.choice(GROUPS)))


def json_bytes(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
