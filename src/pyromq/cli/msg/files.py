"""`pyromq msg export` and `import`: messages of a topic as JSON lines, and JSON lines as messages."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from ... import admin
from ...errors import PyroError
from ...model.foreign_text import shell_word
from ...model.message import Property
from ...text.extras import install_command
from ..terminal.exits import NO, exit_code
from ..terminal.interrupts import tells_if_stopped, typed_lines
from ..terminal.options import one_broker
from ..terminal.output_file import whole_file
from ..terminal.printing import print_many, to_json
from ..terminal.progress import counted, until_stopped
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, command
from ..terminal.validation import check_sendable
from .copying import FROM, TAGS, TO, Skipped, selects

if TYPE_CHECKING:
    from ...admin.search import Window


@command("pyromq msg export orders orders.jsonl", "pyromq msg export orders --from 2026-11-16T00:00:00 | jq -r .body")
@click.argument("topic")
@click.argument("file", default="-")
@TAGS
@FROM
@TO
@click.option("--most", type=click.IntRange(min=1), help="End after so many.")
@one_broker
@talks
@selects
async def export(shell: Shell, topic: str, file: str, wanted: Window, most: int | None, broker: str | None) -> None:
    """Write the messages of TOPIC to FILE (- is standard output), one JSON object a line, queue by queue.

    A FILE that ends in .parquet or .arrow gets them as columns, those of the Spark source; it needs pyromq[spark].
    A message that cannot be read is named and left out: exit code 1.
    """
    if file.endswith((".parquet", ".arrow")):
        if broker or most:
            raise Fail(f"{file}: columns are written of the whole topic; leave out --broker and --most")
        await _export_columns(shell, topic, file, wanted)
        return
    from .message_rows import exported

    places = await shell.masters(broker)
    await shell.topic(topic, places)
    length = sum(queue.count for queue in await admin.topics.queues(shell.calls, places, topic))
    count, skipped = 0, Skipped(f"pyromq msg export {topic}")
    on_screen = file == "-" and sys.stdout.isatty()  # a screen has the messages themselves
    with _written(file) as write, counted(min(length, most or length), topic, is_quiet=on_screen) as done:
        async for found in admin.search.by_time(shell.calls, places, topic, wanted):
            done(1)
            with skipped.unless_readable():
                admin.copies.check_readable(found.message)
                write(to_json(exported(found.message, found.place.name)))
                count += 1
            if count == most:
                break
    if file != "-":
        shell.rows([{"topic": topic, "file": file, "messages": count} | skipped.column()])
    skipped.check()


async def _export_columns(shell: Shell, topic: str, file: str, wanted: Window) -> None:
    try:
        from ...spark.codec.files import topic_to_file
        from ...spark.connect.cluster import connection_words
    except ImportError as missing:
        raise Fail(f"{file}: needs {missing.name}: {install_command('spark')}") from None
    tags = "" if wanted.tags == "*" else wanted.tags.replace("||", " || ")
    given = {"topic": topic, "tags": tags, **connection_words(shell.session.config)}
    if wanted.begin_ms:
        given |= {"startingTimestamp": str(wanted.begin_ms), "startingOffsetsByTimestampStrategy": "latest"}
    if wanted.end_ms is not None:
        given["endingTimestamp"] = str(wanted.end_ms)
    options = {name: value for name, value in given.items() if value}
    is_over = Event()
    then = f"{file} was not written, the same command begins anew"
    with until_stopped(f"export of {topic}", then, is_quiet=shell.as_json, in_bytes=False) as report:

        def report_or_end(done: int, whole: int) -> None:
            """End the thread, which no Ctrl-C reaches, and with it what it has written."""
            if is_over.is_set():
                raise Fail("stopped")
            report(done, whole)

        try:
            count = await asyncio.to_thread(topic_to_file, Path(file), report_or_end, **options)
        finally:
            is_over.set()
    shell.rows([{"topic": topic, "file": file, "messages": count}])


@command(
    "pyromq msg import orders.jsonl --dry-run",
    "pyromq msg import orders.jsonl --to orders-2",
    "pyromq msg export orders | pyromq msg import - --to orders-2",
    name="import",
)
@click.argument("file")
@click.option("--to", "target", help="Topic to send to.  [default: what each line says]")
@changes
async def import_(shell: Shell, file: str, target: str | None) -> None:
    """Send the messages of FILE (- is standard input), as `export` writes them: new messages with new ids.

    Messages with one order key keep their order. A line that is bad or cannot be sent ends it, with its number, how
    many were sent and how to go on.
    """
    copies = admin.copies.Copies(shell.session)
    run = _Import(file, target, shell.is_dry)
    told = tells_if_stopped(run.stopped)
    is_quiet = shell.as_json or _is_typed(file)
    with told, _read(file) as lines, counted(_length(file), file, is_quiet=is_quiet) as done:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                topic = await _import_line(shell, copies, line, run)
            except (PyroError, ValueError) as fault:
                raise run.failed(number, fault) from None
            run.counts[topic] += 1
            run.lines_done = number
            done(1)
    rows = [{"topic": topic, "messages": count} for topic, count in sorted(run.counts.items())]
    if shell.is_dry:
        shell.about_to(f"send {run.counts.total()} messages", rows)
    shell.rows(rows, "nothing to send")


async def _import_line(shell: Shell, copies: admin.copies.Copies, line: bytes, run: _Import) -> str:
    """Send the message of a line, or in a dry run check all that the send would check. Return its topic."""
    from .message_rows import imported

    one = imported(line, run.target)
    message = copies.pack_new(one.topic, one.body, one.properties)
    if not shell.is_dry:
        await copies.send_packed(message, one.properties.get(Property.SHARDING_KEY))
    elif one.topic not in run.counts:
        await check_sendable(shell, [one.topic])
    return one.topic


@dataclass(slots=True)
class _Import:
    """How far an import is, and the words for where it ends in the middle."""

    file: str
    target: str | None
    is_dry: bool
    counts: Counter[str] = field(default_factory=Counter)
    lines_done: int = 0

    def stopped(self) -> str:
        sent = f"{0 if self.is_dry else self.counts.total()} messages were sent"
        rest = self._rest("The rest, whose first may be there already", self.lines_done + 1)
        return f"{sent}.{rest}" if rest else sent

    def failed(self, number: int, fault: Exception) -> Fail:
        """Return the failure of a line, with how many were sent before it and how to go on."""
        words = f"line {number} of {self.file}: {str(fault).rstrip('.')}{'' if str(fault).endswith('?') else '.'}"
        if not self.is_dry:
            may_be_there = ", and it may be there already" if getattr(fault, "may_be_stored", False) else ""
            words += f" {self.counts.total()} messages before it were sent{may_be_there}."
            words += self._rest("From that line on", number)
        return Fail(words, NO if isinstance(fault, ValueError) else exit_code(fault))

    def _rest(self, what: str, number: int) -> str:
        """Return the command for the lines from a number on. None of a pipe, or where all lines are left."""
        if self.is_dry or self.file == "-" or not self.counts:
            return ""
        to = f" --to {shell_word(self.target)}" if self.target else ""
        command = f"tail -n +{number} {shell_word(self.file)} | pyromq msg import -{to}"
        return f" {what}, with the same -n or --profile: {command}"


@contextmanager
def _read(file: str) -> Iterator[Iterable[bytes]]:
    """Open the file for reading line by line, as bytes: those lines end at LF alone, and a body may hold U+2028."""
    if file == "-":
        yield typed_lines(sys.stdin.buffer)
        return
    with open(file, "rb") as opened:
        yield opened


def _is_typed(file: str) -> bool:
    return file == "-" and sys.stdin.isatty()


def _length(file: str) -> int:
    """Return the number of lines; 0 for a pipe."""
    if not Path(file).is_file():
        return 0
    with open(file, "rb") as opened:
        return sum(1 for _ in opened)


@contextmanager
def _written(file: str) -> Iterator[Callable[[str], object]]:
    if file == "-":
        yield print_many
        return
    with whole_file(file) as write:
        yield lambda line: write(line + "\n")
