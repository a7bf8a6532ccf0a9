"""docs/codes.md, made from the request table: `python scripts/codes.py > docs/codes.md`. A test keeps it current."""

from __future__ import annotations

from typing import Any

from pyromq.broker.surface import NOT_ON_FAST_PORT
from pyromq.protocol.access import NameIn, Need
from pyromq.protocol.requests import ROWS
from pyromq.protocol.row import AnyRow, Content, Plain, ServedBy

HEAD = """\
# Request codes

Made from `src/pyromq/protocol/requests.py` by `python scripts/codes.py`. A code that a broker does not serve is
answered with REQUEST_CODE_NOT_SUPPORTED (3) and the reason as remark. Codes from 30001 on are known to our brokers
alone. *Access* is what ACL 2.0 asks for: an action on a topic, a group or the cluster. Servers ask for
it once they have users ([users and permissions](access.md)).

| code | name | request: header, body | answer: header, body | class | access | served by |
|---|---|---|---|---|---|---|
"""
SERVED = {
    ServedBy.BROKER: "broker",
    ServedBy.RELAYED: "broker, which asks a client",
    ServedBy.NAME_SERVER: "name server",
    ServedBy.CLIENT: "client",
    ServedBy.CONTROLLER: "controller",
    ServedBy.USERS: "broker; name server, once it has users",
}
WHERE = {NameIn.SERVER: "", NameIn.MESSAGE: " of the message", NameIn.ALL: ", each of them"}


def page() -> str:
    """Return the page, a line for each row."""
    return HEAD + "".join(f"| {' | '.join(_cells(row))} |\n" for _, row in sorted(ROWS.items()))


def _cells(row: AnyRow) -> tuple[str, ...]:
    served = SERVED.get(row.by, f"nobody: {row.by.value}")
    if row in NOT_ON_FAST_PORT:
        served += "; not on the fast port"
    return (
        str(row),
        row.name,
        _content(row.takes),
        _content(row.gives),
        row.lane.name.lower(),
        "; ".join(map(_need, row.needs)),
        served,
    )


def _content(content: Content[Any, Any]) -> str:
    header = "" if content.header is None else content.header.__name__
    return ", ".join(filter(None, (header, _body(content.body))))


def _body(kind: Any) -> str:
    if kind is None:
        return ""
    if isinstance(kind, Plain):
        return kind.name.lower()
    inner = getattr(kind, "__args__", ())
    return f"list of {inner[0].__name__}" if inner and kind.__origin__ is list else str(kind.__name__)


def _need(need: Need) -> str:
    where = WHERE.get(need.name_in, f" `{need.name}`")
    return f"{'/'.join(one.value for one in need.actions)} on {need.resource.value}{where}"


if __name__ == "__main__":
    print(page(), end="")
