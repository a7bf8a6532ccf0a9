"""`pyromq msg`: one message's life, its trace, dead letters. Asks brokers, prints tables or answers as they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import click

from ..broker.admin.dead_letters import DEAD_LETTERS
from ..broker.admin.message_life import MESSAGE_LIFE
from ..model import names
from ..model.codes import RequestCode, ResponseCode
from ..model.message_trace import MessageTrace, Traced, stories
from ..protocol.command import Command
from ..protocol.trace import answered_events, trace_query
from . import trace_table
from .asking import Where, where
from .exits import NO_ANSWER

_NOT_HERE = (ResponseCode.QUERY_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST)


@click.group()
def msg() -> None:
    """Look at single messages."""


@msg.command()
@click.argument("topic")
@click.argument("message_id")
@where
@click.option("--json", "as_json", is_flag=True, help="The answer as it is.")
def get(topic: str, message_id: str, broker: str, namesrv: str | None, timeout: float, as_json: bool) -> None:
    """Tell the life of a message: MESSAGE_ID is its id, its offset id, or a key that it alone has.

    Exit code 0: found, 1: no broker knows it, 2: no answer.
    """
    wanted = Command(code=MESSAGE_LIFE, fields={"topic": topic, "id": message_id})
    _show(Where(broker, namesrv, timeout).ask(wanted), as_json, _print_life)


@msg.command()
@click.argument("message_id")
@click.option(
    "--trace-topic", default=names.TRACE_TOPIC, show_default=True, help="Where the clients write their traces."
)
@where
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each message.")
def trace(message_id: str, trace_topic: str, broker: str, namesrv: str | None, timeout: float, as_json: bool) -> None:
    """Tell what clients traced of a message: MESSAGE_ID is its id, or a key. Clients trace where it is switched on.

    Exit code 0: found, 1: nobody traced it, 2: no answer.
    """
    found = _traced(Where(broker, namesrv, timeout), trace_topic, message_id)
    for one in found:
        click.echo(json.dumps(trace_table.as_json(one)) if as_json else "\n".join(trace_table.lines(one)))
    if not found:
        click.echo(f"pyromq: no trace of {message_id} in {trace_topic}", err=True)
        sys.exit(1)


def _traced(whom: Where, trace_topic: str, word: str) -> list[MessageTrace]:
    """A key leads to ids; each is asked for by itself, since not every event of a message names its keys."""
    first = stories(_events(whom, trace_topic, word), word)
    return [
        one if one.message_id == word else stories(_events(whom, trace_topic, one.message_id), one.message_id)[0]
        for one in first
    ]


def _events(whom: Where, trace_topic: str, word: str) -> list[Traced]:
    query = Command(code=RequestCode.QUERY_MESSAGE, fields=trace_query(trace_topic, word).to_fields())
    events: list[Traced] = []
    for address, answer in whom.ask(query).items():
        if answer.code == ResponseCode.SUCCESS:
            events += answered_events(answer.body)
        elif answer.code not in _NOT_HERE:
            click.echo(f"pyromq: {address}: {answer.remark}", err=True)
            sys.exit(NO_ANSWER)
    return events


@msg.command()
@click.argument("group", required=False)
@click.option("--most", default=100, show_default=True, help="Messages of a group that are shown.")
@where
@click.option("--json", "as_json", is_flag=True, help="The answer as it is.")
def dead(group: str | None, most: int, broker: str, namesrv: str | None, timeout: float, as_json: bool) -> None:
    """List dead letters and the time that they have left: groups, or the messages of one GROUP."""
    fields = {"maxNum": str(most)} | ({} if group is None else {"group": group})
    wanted = Command(code=DEAD_LETTERS, fields=fields)
    _show(Where(broker, namesrv, timeout).ask(wanted), as_json, _print_dead)


def _show(answers: Mapping[str, Command], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """The good ones; if there is none, why not."""
    good = {address: one for address, one in answers.items() if one.code == ResponseCode.SUCCESS and one.body}
    for address, answer in good.items():
        found = json.loads(bytes(answer.body)) | {"broker": address}
        click.echo(json.dumps(found, indent=2)) if as_json else show(found)
    if good:
        return
    for address, answer in answers.items():
        click.echo(f"pyromq: {address}: {answer.remark}", err=True)
    sys.exit(1 if all(one.code in _NOT_HERE for one in answers.values()) else NO_ANSWER)


# --- printing ---------------------------------------------------------------------------------------------------------


def _print_life(found: dict[str, Any]) -> None:
    lines = {
        "message": found["id"],
        "topic": found["topic"],
        "broker": found["broker"],
        "state": _state(found),
        "keys": found.get("keys"),
        "tags": found.get("tags"),
        "born": _time(found.get("bornMs")),
        "bytes": found.get("bytes"),
        "stays until": _time(found.get("leavesMs")),
    }
    for name, value in lines.items():
        if value not in (None, ""):
            click.echo(f"{name:12} {value}")
    for one in found.get("groups", ()):
        click.echo(f"{'group':12} {one['group']}: {_state(one)}")
    for one in found.get("history", ()):
        until = f", until {_time(one['untilMs'])}" if one.get("untilMs") else ""
        place = f"{one['topic']} queue {one['queue']} offset {one['offset']}"
        click.echo(f"{_time(one['atMs']):24} {one['what']}{until}: {place} ({one['offsetId']})")


def _state(one: Mapping[str, Any]) -> str:
    """`in retry 3 until 2026-11-16 10:00:00.000`"""
    words = [str(one["state"])]
    if one.get("retry"):
        words.append(f"{'' if one['state'] == 'in retry' else 'at retry '}{one['retry']}")
    if "checks" in one:
        words.append(f"with {one['checks']} checks")
    if one.get("untilMs"):
        words.append(f"until {_time(one['untilMs'])}" + (" (overdue)" if one.get("overdue") else ""))
    if one.get("atMs"):
        words.append(f"since {_time(one['atMs'])}")
    return " ".join(words)


def _print_dead(found: dict[str, Any]) -> None:
    for one in found.get("groups", ()):
        left = f"the oldest has {_span(one['secondsLeft'])} left"
        click.echo(f"{one['group']}: {one['messages']} messages, {left} ({found['broker']})")
    for one in found.get("messages", ()):
        died, left = _time(one["diedMs"]), _span(one["secondsLeft"])
        click.echo(f"{one['id']:34} {one['topic']} died {died} after {one['attempts']} attempts, {left} left")
    if not found.get("groups") and not found.get("messages"):
        click.echo(f"no dead letters ({found['broker']})")
    if found["lostForWantOfSpace"]:
        click.echo(f"LOST for want of space since the start: {found['lostForWantOfSpace']}", err=True)
    for warning in found["warnings"]:
        click.echo(f"WARNING: {warning}", err=True)


def _span(seconds: int) -> str:
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def _time(ms: int | None) -> str:
    return "" if ms is None else datetime.fromtimestamp(ms / 1000).isoformat(" ", "milliseconds")
