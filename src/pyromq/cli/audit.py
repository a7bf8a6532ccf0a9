"""`pyromq audit`: show, search and verify the audit log of a daemon on this machine.

The files and their chain are those of `audit/`; here options come in and rows go out. Exit codes of `verify`: 0 all is
there as it was written, 1 something was changed, cut out or is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ..text import tables
from ..text.similar import closest
from .terminal.exits import NO
from .terminal.options import together
from .terminal.printing import columns, print_lines, print_prose, to_json
from .terminal.tree import Tree, command

_FOLLOW_S = 0.5
_OWN_COLUMNS = ("seq", "time", "kind", "user", "from", "call", "code", "outcome", "hash")

KINDS = ("start", "stop", "call", "login", "refusal", "policy", "file", "open")

_path = click.argument("path", type=click.Path(path_type=Path, file_okay=False))
_json = click.option("--json", "as_json", is_flag=True, help="The lines as JSON, with everything that is in them.")


@click.group(cls=Tree)
def audit() -> None:
    """Show, search and verify an audit log.

    PATH is its folder: pyromq/audit in a broker's store, audit beside a name server's KV file, ~/proxy/audit of a
    proxy, or what auditFolder names.
    """


@command("pyromq audit tail pyromq-data/store/pyromq/audit", "pyromq audit tail PATH -n 100 --follow", of=audit)
@together(_path, _json)
@click.option("-n", "--lines", "count", type=click.IntRange(min=0), default=20, show_default=True, help="So many.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on, until Ctrl-C.")
def tail(path: Path, as_json: bool, count: int, follow: bool) -> None:
    """Show the last lines of the log in PATH."""
    from collections import deque

    from ..ambient import pause
    from ..audit.verify import entries

    last = deque(entries(path), maxlen=max(count, 1))
    seen = max((one["seq"] for one in last), default=0)
    _print([*last][-count:] if count else [], as_json)
    while follow:
        sys.stdout.flush()
        pause(_FOLLOW_S)
        new = list(entries(path, after=seen))
        _print(new, as_json, titles=False)
        seen = max([seen, *(one["seq"] for one in new)])


@command(
    "pyromq audit search PATH --user alice --since -1d",
    "pyromq audit search PATH --call DELETE_TOPIC_IN_BROKER --text orders --json",
    of=audit,
)
@together(_path, _json)
@click.option("--user", help="In the name of this user.")
@click.option("--from", "address", metavar="ADDRESS", help="From this address, with or without its port.")
@click.option("--kind", metavar="KIND", help="start, stop, call, login, refusal, policy, file or open.")
@click.option("--call", "call", metavar="NAME|CODE", help="This request, by RocketMQ's name or number.")
@click.option("--text", help="With this text anywhere in the line.")
@click.option("--refused", is_flag=True, help="Only what did not succeed.")
@click.option("--since", metavar="TIME", help="At or after this time: -1h, yesterday 08:00, 2026-11-18T08:30.")
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option("--limit", type=click.IntRange(min=1), help="The last so many of what is found.")
def search(path: Path, as_json: bool, limit: int | None, **wanted: Any) -> None:
    """Find lines of the log in PATH. Exit code 1: there are none."""
    from collections import deque

    from ..audit.verify import entries

    fits = _filter(**wanted)
    found = deque((one for one in entries(path) if fits(one)), maxlen=limit)
    if not found:
        _check_names(path, wanted["kind"], wanted["call"])
    _print(list(found), as_json)
    if not found:
        sys.exit(NO)


@command("pyromq audit verify PATH", "pyromq audit verify PATH --expect 4711:9f8a...", of=audit)
@together(_path, _json)
@click.option(
    "--expect", "expected", metavar="SEQ:HASH", help="A line that the log must have, as an earlier verify named it."
)
def verify(path: Path, as_json: bool, expected: str | None) -> None:
    """Check that the log in PATH is all there, and as it was written.

    Who may write to the folder could make all of it anew. Keep what this prints (SEQ:HASH) on another machine, and give
    it to --expect the next time: then that is seen, too.
    """
    from ..audit.verify import verify as check

    verdict = check(path, None if expected is None else _link(expected))
    last = None if verdict.last is None else f"{verdict.last.seq}:{verdict.last.hash}"
    alarms = [*verdict.alarms, *([f"... and {verdict.more_alarms} more"] if verdict.more_alarms else [])]
    if as_json:
        found = {"files": verdict.files, "lines": verdict.lines, "last": last, "alarms": alarms, "notes": verdict.notes}
        print_lines(to_json(found))
    else:
        for note in verdict.notes:
            print_lines(f"note: {note}")
        for alarm in alarms:
            print_lines(f"ALARM: {alarm}")
        print_lines(f"{verdict.lines} lines in {verdict.files} files" + (f", the last is {last}" if last else ""))
        print_lines("not as it was written" if alarms else "all is there, as it was written")
    if alarms:
        sys.exit(NO)


def _link(text: str) -> Any:
    from ..audit.lines import Link
    from ..model.wire_text import whole_number

    number, _, digest = text.partition(":")
    seq = whole_number(number)
    if seq is None or len(digest) != 64:
        raise click.UsageError(f"--expect {text}: it is SEQ:HASH as verify prints it, a number and 64 characters")
    return Link(seq, digest)


def _check_names(path: Path, kind: str | None, call: str | None) -> None:
    """Fail if lines of this kind, or of this call, are never written and none is there. Calls of gRPC have no row."""
    from ..audit.verify import entries
    from ..protocol.requests import ROWS

    if kind is not None and kind not in KINDS:
        raise click.UsageError(f"--kind {kind}: there is no such kind.{closest(kind, KINDS)} {', '.join(KINDS)}")
    if call is None or call in {str(code) for code in ROWS}:
        return
    known = {row.name for row in ROWS.values()}
    if call not in known and call not in (seen := {str(one["call"]) for one in entries(path) if "call" in one}):
        near = closest(call, known | seen)
        raise click.UsageError(f"--call {call}: there is no such request.{near} All stand in docs/codes.md")


def _filter(
    user: str | None,
    address: str | None,
    kind: str | None,
    call: str | None,
    text: str | None,
    refused: bool,
    since: str | None,
    until: str | None,
) -> Callable[[dict[str, Any]], bool]:
    first, end = (
        None if given is None else _moment(given, name) for given, name in ((since, "since"), (until, "until"))
    )

    def tests(one: dict[str, Any]) -> Iterator[bool]:
        yield user is None or one.get("user") == user
        yield address is None or address in (came := str(one.get("from", "")), came.rpartition(":")[0])
        yield kind is None or one.get("kind") == kind
        yield call is None or call in (one.get("call"), str(one.get("code")))
        yield text is None or text in to_json(one)
        yield not refused or bool(one.get("outcome")) or one.get("kind") == "refusal"
        yield first is None or str(one.get("time")) >= first
        yield end is None or str(one.get("time")) < end

    return lambda one: all(tests(one))


def _moment(text: str, name: str) -> str:
    """Return a time as lines have it: their texts are in the order of time."""
    from ..ambient import SystemClock
    from ..audit.lines import stamp
    from ..model.times import parse_time

    try:
        return stamp(parse_time(text, SystemClock().now_ms()))
    except ValueError as fault:
        raise click.UsageError(f"--{name} {text}: {fault}") from None


def _print(found: list[dict[str, Any]], as_json: bool, *, titles: bool = True) -> None:
    if as_json:
        print_lines(*map(to_json, found))
        return
    if not found:
        if titles:
            print_prose("no line of the audit log")
        return
    rows = [_row(one) for one in found]
    lines = list(tables.lines(rows, columns()))
    print_lines(*(lines if titles else lines[1:]))


def _row(one: dict[str, Any]) -> dict[str, Any]:
    row = {name: one.get(name, "") for name in ("time", "kind", "user", "from", "call", "outcome")}
    row["what"] = " ".join(
        f"{name}={value if isinstance(value, str) else to_json(value)}"
        for name, value in one.items()
        if name not in _OWN_COLUMNS and value not in ({}, "")
    )
    return row
