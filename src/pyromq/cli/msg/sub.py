"""`pyromq sub`: show messages as they come. Without a group it only looks; with one it consumes as its member."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ...client.errors import Error, Refused
from ...client.received import Received  # at the top: the SDK reads the types of handlers
from ...model.codes import ResponseCode
from ...model.foreign_text import one_line
from ...model.group import ConsumeFromWhere
from ...protocol.bodies.heartbeat import CheckClientRequestBody
from ...protocol.requests import RequestCode
from ...text.colour import DIM, GOOD, STRONG, WARN, Painted
from ...text.values import moment
from ..terminal.exits import REFUSED
from ..terminal.options import time_ms
from ..terminal.printing import print_as_it_is, print_lines, to_json
from ..terminal.shell import Shell, talks
from ..terminal.tree import Fail, command

if TYPE_CHECKING:
    from ...client.client import Client
    from ...client.consume.pull_consumer import PullConsumer
    from ...client.pop.popped import Popped
    from ...client.pop.simple_consumer import SimpleConsumer
    from ...client.subscription import Filter
    from ...protocol.bodies.keyed import MessageQueue

Show = Callable[[Received], None]
POP_AT_ONCE = 16  # of --pop
POLL_S = 0.5  # so often a stop is noticed
BROWSING_GROUP = "pyromq_sub"  # the group's name in requests of those who only look; nothing is committed for it


@command(
    "pyromq sub orders                               what comes from now on, until Ctrl-C",
    "pyromq sub orders --from first --count 10       the ten oldest that it finds",
    "pyromq sub orders --tail 20                     the last twenty, and what comes then",
    "pyromq sub orders --from 2026-11-16T08:30:00 --tag paid",
    "pyromq sub orders --sql \"region = 'eu'\" --json",
    "pyromq sub orders -f '{keys} {prop:region} {body}'",
    "pyromq sub orders -g billing                    as a member of group billing: acks what it shows",
    "pyromq sub orders -g billing --pop              the same, beside any number of members of a group that pops",
)
@click.argument("topic")
@click.option("-g", "--group", help="Consume as a member of this group; without it nothing is committed.")
@click.option("--pop", is_flag=True, help="With --group: take messages one by one, not queues (RocketMQ 5).")
@click.option("--tag", "tags", multiple=True, help="Only messages with this tag; may be given several times.")
@click.option("--sql", "expression", help="Only messages whose properties fit this SQL92 expression.")
@click.option("--from", "begin", default="latest", show_default=True, help="latest, first, or a time, like -1h.")
@click.option("--tail", type=click.IntRange(min=1), help="Begin with the last so many, by the time of storing.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many.")
@click.option(
    "-f", "--format", "form", metavar="TEXT", help="Lines of your own: {keys}, {body}, {prop:NAME} and so on."
)
@talks
async def sub(
    shell: Shell, topic: str, group: str | None, begin: str, tail: int | None, count: int | None, **how: Any
) -> None:
    """Show the messages of TOPIC as they come.

    --format takes the names of --json in braces, and {prop:NAME}; \\t is a tab.
    """
    from ...client.subscription import everything, sql, tag
    from ..serve.stopping import stop_on_signals

    tags, expression = how["tags"], how["expression"]
    if tags and expression:
        raise click.UsageError("--tag and --sql are two kinds of filter: give one of them")
    if tail is not None and (group is not None or begin != "latest"):
        raise click.UsageError("--tail says itself where to begin: give it without --from and --group")
    if how["pop"] and group is None:
        raise click.UsageError("--pop takes messages as a member of a group: give --group with it")
    words = [word for each in tags for word in each.split("||")]  # as RocketMQ writes several tags
    wanted = sql(expression) if expression else tag(*words) if tags else everything()
    places = {"latest": ConsumeFromWhere.LAST_OFFSET, "first": ConsumeFromWhere.FIRST_OFFSET}
    start: dict[str, Any] = {"begin": places.get(begin, ConsumeFromWhere.TIMESTAMP)}
    if begin not in places:
        start["begin_ms"] = time_ms(begin, "--from")
    if how["pop"] and begin not in places:
        cure = "to go back in time, reset the group (pyromq group reset)"
        raise click.UsageError(f"--pop begins at --from first or --from latest; {cure}")
    listener = Listener(topic, wanted, start, _printer(how["form"], shell.as_json), count, stop_on_signals())
    async with shell.client() as client:
        if group is None:
            await listener.browse(client, tail)
        elif how["pop"]:
            await listener.pop(client, group)
        else:
            await listener.consume(client, group)


def _printer(form: str | None, as_json: bool) -> Show:
    """Return the function that prints a message; `form` is a line format of the user's own."""
    from ..terminal.line_format import facts, line_format

    if form is None:
        return (lambda msg: print_lines(to_json(facts(msg)))) if as_json else (lambda msg: print_lines(*_lines(msg)))
    if as_json:
        raise click.UsageError("--json and --format are two forms: give one of them")
    own = line_format(form)
    return lambda msg: print_as_it_is(own(msg))


@dataclass(slots=True)
class Listener:
    """Shows the messages of a topic, until it is enough: `left` of them are shown (None: no end), or a signal came."""

    topic: str
    wanted: Filter
    begin: dict[str, Any]
    show: Show
    left: int | None
    enough: asyncio.Event

    def shown(self, msg: Received) -> None:
        self.show(msg)
        if self.left is not None:
            self.left -= 1
            if not self.left:
                self.enough.set()

    async def browse(self, client: Client, tail: int | None) -> None:
        """Commit nothing; begin with the last `tail` of all queues, if that is given."""
        options = self.begin | {"auto_commit": False, "on_unreadable": "skip"}  # who cannot be read is named in the log
        async with client.pull_consumer(BROWSING_GROUP, filter=self.wanted, **options) as consumer:
            queues = await consumer.queues(self.topic)
            if not queues:
                raise cannot_be_read(self.topic)
            await self._check_allowed(client, BROWSING_GROUP)
            await consumer.assign(queues)
            found = [] if tail is None else await self._last(consumer, queues, tail)
            while not self.enough.is_set():
                for msg in found or await consumer.poll(timeout=POLL_S):
                    if not self.enough.is_set():
                        self.shown(msg)
                found = []
                queues = await self._with_added(consumer, queues)

    async def _with_added(self, consumer: PullConsumer, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Poll queues that the topic got meanwhile too, from their first message on; return all that are polled."""
        added = set(await consumer.queues(self.topic)).difference(queues)
        if added:
            try:
                await consumer.assign([*queues, *added])
            except Error:  # a broker is new and cannot be asked yet
                return queues
        return [*queues, *added]

    async def _last(self, consumer: PullConsumer, queues: list[MessageQueue], count: int) -> list[Received]:
        """Return the last `count` of all queues together and leave the consumer at their ends."""
        ends: dict[MessageQueue, int] = {}
        for queue in queues:
            await consumer.seek_to_begin(queue)
            first = consumer.position(queue)
            await consumer.seek_to_end(queue)
            ends[queue] = consumer.position(queue)
            await consumer.seek(queue, max(first, ends[queue] - count))
        found: list[Received] = []
        while not self.enough.is_set() and any(consumer.position(queue) < end for queue, end in ends.items()):
            page = await consumer.poll(timeout=POLL_S)
            found += page
            if not page:  # what is left does not fit the filter
                break
        return sorted(found, key=lambda msg: msg.stored_ms)[-count:]

    async def pop(self, client: Client, group: str) -> None:
        """Take messages as a member of the group, no more than are shown, and ack them."""
        await self._check_readable(client, group)
        async with client.simple_consumer(self.topic, group=group, filter=self.wanted, **self.begin) as consumer:
            while not self.enough.is_set():
                for msg in await self._received(consumer):
                    if not self.enough.is_set():  # else it is given back
                        self.shown(msg)
                        await msg.ack()

    async def _received(self, consumer: SimpleConsumer) -> list[Popped]:
        """Return what comes next; nothing, where it is enough before anything came."""
        most = POP_AT_ONCE if self.left is None else min(self.left, POP_AT_ONCE)
        receiving = asyncio.ensure_future(consumer.receive(max=most))
        stopping = asyncio.ensure_future(self.enough.wait())
        try:
            await asyncio.wait((receiving, stopping), return_when=asyncio.FIRST_COMPLETED)
            return receiving.result() if receiving.done() else []
        finally:
            for each in (receiving, stopping):
                each.cancel()
            await asyncio.gather(receiving, stopping, return_exceptions=True)

    async def _check_readable(self, client: Client, group: str) -> None:
        """Raise what is wrong with name server, topic or permission, for which a consumer would wait for ever."""
        if not (await client.session.route(self.topic)).readable:
            raise cannot_be_read(self.topic)
        await self._check_allowed(client, group)

    async def _check_allowed(self, client: Client, group: str) -> None:
        """Raise Refused if a broker lets this user not pull as a member of the group: a consumer would try for ever."""
        session = client.session
        route = await session.route(self.topic)
        described = self.wanted.describe(session.on_wire(self.topic), 0)
        body = CheckClientRequestBody(
            client_id=session.client_id, group=session.on_wire(group), subscription_data=described
        )
        masters = [address for name in route.addresses if (address := route.master(name)) is not None]
        asked = (session.ask(address, RequestCode.CHECK_CLIENT_CONFIG, None, body) for address in masters)
        for fault in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(fault, Refused) and fault.code == ResponseCode.NO_PERMISSION:
                raise fault

    async def consume(self, client: Client, group: str) -> None:
        """Consume as a member of the group, which acks what is shown."""
        faults: list[OSError] = []

        async def handle(msg: Received) -> None:
            if not self.enough.is_set():
                try:
                    self.shown(msg)
                    return
                except OSError as fault:  # nobody reads what we write any more
                    faults.append(fault)
                    self.enough.set()
            await asyncio.Event().wait()  # until the stop: it is not acked, and the group's next member gets it

        await self._check_readable(client, group)
        how: dict[str, Any] = {"filter": self.wanted, "concurrency": 1, "grace_s": 0.0, "mode": "pull"}
        async with client.push_consumer(self.topic, handle, group=group, **how | self.begin):
            await self.enough.wait()
        if faults:
            raise faults[0]


def cannot_be_read(topic: str) -> Fail:
    """Return the failure of a topic without a readable queue; doctor says whose permission is missing."""
    cure = f"Let it be read: pyromq topic perm {topic} rw. If that is set, pyromq doctor --topic {topic} says more"
    return Fail(f"topic {topic!r} has no queue that may be read. {cure}", REFUSED)


def _lines(msg: Received) -> Iterator[str]:
    """Yield the message for people: the body stands at the end and keeps its line ends. A retry is yellow."""
    where = f"{msg.queue.broker_name}/{msg.queue.queue_id}@{msg.offset}"
    about = [one_line(each) for each in (where, " ".join(msg.keys)) if each]
    first, *more = msg.body.decode("utf-8", "backslashreplace").split("\n")
    colour = WARN if msg.attempt > 1 else DIM
    tag = [(f"  {one_line(msg.tag)}", GOOD)] if msg.tag else []
    keys = [(f"  {each}", STRONG) for each in about[1:]]
    yield Painted((f"{moment(msg.stored_ms)}  {about[0]}", colour), *tag, *keys, (f"  {first}", ""))
    yield from more
