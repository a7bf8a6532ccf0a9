"""`pyromq group`: where a consumer group goes on, set by hand. Request 222, so it works with Java's brokers too.

`skip` goes past what nobody wants any more or what cannot be handled, `reset` to a place or time.
"""

from __future__ import annotations

import sys

import click

from ..model.codes import RequestCode, ResponseCode
from ..model.names import retry_topic
from ..protocol.bodies.body import decode_body
from ..protocol.bodies.offsets import ResetOffsetBody
from ..protocol.command import Command
from ..protocol.headers.offsets import QueryConsumerOffset, ResetOffset
from .asking import Where, where
from .clients import time_ms
from .exits import NO_ANSWER

TO_THE_END = -1  # as a time
ALL_QUEUES = -1


@click.group()
def group() -> None:
    """Set where consumer groups go on."""


@group.command()
@click.argument("name")
@click.argument("topic")
@click.option("--queue", type=click.IntRange(min=0), default=None, help="Only this queue.")
@click.option(
    "--messages", type=click.IntRange(min=1), default=None, help="Only so many of the queue: 1 for a stuck one."
)
@click.option("--retries", is_flag=True, help="Also what waits on the group's retry topic.")
@where
def skip(
    name: str,
    topic: str,
    queue: int | None,
    messages: int | None,
    retries: bool,
    broker: str,
    namesrv: str | None,
    timeout: float,
) -> None:
    """Let group NAME skip what has accumulated in TOPIC; the messages stay. Exit code 0: done, 1: refused."""
    asked = Where(broker, namesrv, timeout)
    if messages is None:
        _reset(asked, name, topic, ALL_QUEUES if queue is None else queue, None, TO_THE_END)
        if retries:
            _reset(asked, name, retry_topic(name), ALL_QUEUES, None, TO_THE_END)
        return
    if queue is None or namesrv is not None:
        raise click.UsageError("--messages counts in one queue of one broker: give --queue and -b")
    _reset(asked, name, topic, queue, _committed(asked, name, topic, queue) + messages, TO_THE_END)


@group.command()
@click.argument("name")
@click.argument("topic")
@click.option("--queue", type=click.IntRange(min=0), default=None, help="Only this queue.")
@click.option("--offset", type=click.IntRange(min=0), default=None, help="This offset of the queue.")
@click.option("--time", "when", default=None, help="First message not before: ms since 1970 or 2026-11-16T00:00:00.")
@where
def reset(
    name: str,
    topic: str,
    queue: int | None,
    offset: int | None,
    when: str | None,
    broker: str,
    namesrv: str | None,
    timeout: float,
) -> None:
    """Let group NAME go on in TOPIC at a time, or, in one queue, at an offset. Exit code 0: done, 1: refused."""
    if (offset is None) == (when is None):
        raise click.UsageError("say where: either --time, or --offset with --queue")
    if offset is not None and (queue is None or namesrv is not None):
        raise click.UsageError("--offset is of one queue of one broker: give --queue and -b")
    asked = Where(broker, namesrv, timeout)
    _reset(
        asked,
        name,
        topic,
        ALL_QUEUES if queue is None else queue,
        offset,
        0 if when is None else time_ms(when, "--time"),
    )


def _committed(asked: Where, name: str, topic: str, queue: int) -> int:
    header = QueryConsumerOffset(consumer_group=name, topic=topic, queue_id=queue)
    (answer,) = asked.ask(Command(code=RequestCode.QUERY_CONSUMER_OFFSET, fields=header.to_fields())).values()
    if answer.code != ResponseCode.SUCCESS:
        click.echo(f"pyromq: group {name} has no offset in queue {queue} of {topic}: {answer.remark}", err=True)
        sys.exit(1)
    return int(answer.fields["offset"])


def _reset(asked: Where, name: str, topic: str, queue: int, offset: int | None, time_ms: int) -> None:
    header = ResetOffset(group=name, topic=topic, queue_id=queue, offset=offset, timestamp=time_ms, is_force=True)
    answers = asked.ask(Command(code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields=header.to_fields()))
    good = {address: one for address, one in answers.items() if one.code == ResponseCode.SUCCESS}
    for answer in good.values():
        table = decode_body(ResetOffsetBody, answer.body).offset_table
        for place, set_to in sorted(table.items(), key=lambda item: item[0].queue_id):
            click.echo(f"{place.topic} {place.broker_name} queue {place.queue_id}: goes on at {set_to}")
    if good:
        return
    for address, answer in answers.items():
        click.echo(f"pyromq: {address}: {answer.remark}", err=True)
    sys.exit(1 if answers else NO_ANSWER)
