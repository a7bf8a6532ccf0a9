"""The shape of a row of the request table: all that is known of a request before anybody serves it.

    GET_MAX_OFFSET = Row(30, Content(GetMaxOffset), Content(OffsetAnswer), lane=QUERY, needs=on_topic(SUB, GET))

`requests.py` holds the rows. Servers decode requests and encode answers by them, clients and tools the other way
round, the transport queues by their class, access control will read their needs, and docs/codes.md is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, Generic, TypeVar, overload

from .access import Action, Needs, on_cluster
from .bodies.body import decode_body, encode_body
from .headers.header import Header
from .json import DEFAULT_LIMITS, Dialect, JsonLimits

H = TypeVar("H", bound=Header | None)  # a request's header and body, and its answer's
B = TypeVar("B")
A = TypeVar("A", bound=Header | None)
R = TypeVar("R")


_MOST = on_cluster(Action.UPDATE)


class RequestClass(IntEnum):
    """Which requests share a lane, in the order in which a turn of the loop serves them.

    Chosen by what a late answer costs: a heartbeat that waits makes a healthy broker or consumer look dead, so it
    comes first; administration is what can wait.
    """

    HEARTBEAT = 0
    SEND = 1
    PULL = 2
    QUERY = 3
    ADMIN = 4


class ServedBy(Enum):
    """Who serves a request; the value is what a broker says of a request that it does not serve."""

    BROKER = "the broker answers it"
    RELAYED = "the broker passes it on to a client"
    NAME_SERVER = "the name server answers it"
    CLIENT = "brokers send it to clients, nobody sends it to brokers"
    CONTROLLER = "the controller answers it"
    # Nobody, and why:
    CONTROLLED = "controllers send it to brokers that they lead"
    NOBODY = "RocketMQ 5.5.0 has the number and no handler either"
    POP = "pop consumption is not there yet: consume by pulling (a push consumer does)"
    REPLICATION = "replication is not there yet: this broker is a lone master"
    USERS = "brokers and name servers answer it"
    LITE = "lite topics are not there yet"
    STATIC = "static topics are not there yet"


class Plain(Enum):
    """Bodies that are no JSON: their bytes are handed on as they are."""

    MESSAGE = "a message's own bytes, or a batch of messages"
    RECORDS = "stored records, one after another"
    PROPERTIES = "text of `key=value` lines"
    TEXT = "a text"
    BINARY = "bytes of a layout of their own"


class Content(Generic[H, B]):
    """What a request or an answer carries: a header struct, and a body struct or Plain kind. None: it has none.

    `read_header` makes the typed header of a command's fields. Malformed (a RequestRefused) names the field that is
    missing or wrong.
    """

    __slots__ = ("body", "dialect", "header", "is_json", "read_header")
    read_header: Callable[[Mapping[str, str]], H]

    @overload
    def __init__(self: Content[None, None]) -> None: ...
    @overload
    def __init__(self: Content[H, None], header: type[H]) -> None: ...
    @overload
    def __init__(self: Content[None, bytes], header: None, body: Plain) -> None: ...
    @overload
    def __init__(self: Content[H, bytes], header: type[H], body: Plain) -> None: ...
    @overload
    def __init__(self: Content[None, B], header: None, body: type[B], dialect: Dialect = ...) -> None: ...
    @overload
    def __init__(self: Content[H, B], header: type[H], body: type[B], dialect: Dialect = ...) -> None: ...

    def __init__(self, header: Any = None, body: Any = None, dialect: Dialect = Dialect.STANDARD) -> None:
        """`dialect`: how a JSON body is written; every dialect is read."""
        self.header: type[Header] | None = header
        self.body = body
        self.dialect = dialect
        self.is_json = body is not None and not isinstance(body, Plain)
        self.read_header = _no_header if header is None else header.from_fields

    def read_body(self, data: bytes | memoryview, limits: JsonLimits = DEFAULT_LIMITS) -> B:
        """Return the body, typed where it is JSON. Malformed says what is wrong with it."""
        return decode_body(self.body, data, limits) if self.is_json else bytes(data)  # type: ignore[return-value]

    def write_body(self, body: B | None) -> bytes:
        """Return the bytes of a body; bytes are taken to be encoded already."""
        if isinstance(body, bytes | memoryview):
            return bytes(body)
        return b"" if body is None else encode_body(body, self.dialect)


def _no_header(_: Mapping[str, str]) -> Any:
    return None


class Row(int, Generic[H, B, A, R]):
    """A request: itself its code, so that it stands wherever a code does. `name` is RocketMQ's."""

    code: int  # as a plain number
    name: str
    takes: Content[H, B]
    gives: Content[A, R]
    lane: RequestClass
    needs: Needs
    by: ServedBy
    others: bool

    def __new__(
        cls,
        code: int,
        takes: Content[H, B],
        gives: Content[A, R],
        *,
        lane: RequestClass = RequestClass.ADMIN,
        needs: Needs = _MOST,
        by: ServedBy = ServedBy.BROKER,
        others: bool = False,
    ) -> Row[H, B, A, R]:
        """`takes`: the request's content, `gives`: the answer's. What names no need asks for the most: the cluster.

        `others`: it has the lane of administration, but servers, gateways or clients send it too, to do their work."""
        row = super().__new__(cls, code)
        row.code = code
        row.takes, row.gives, row.lane, row.needs, row.by, row.others = takes, gives, lane, needs, by, others
        return row

    @property
    def is_administration(self) -> bool:
        """Return whether nobody but administrators and their tools sends it."""
        return self.lane is RequestClass.ADMIN and not self.others

    @property
    def only_reads(self) -> bool:
        """Return whether it changes nothing: who may see its resources may send it."""
        return all(Action.GET in need.actions or Action.LIST in need.actions for need in self.needs)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}: {self.code}>"

    __str__ = int.__repr__


AnyRow = Row[Any, Any, Any, Any]
