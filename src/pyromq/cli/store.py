"""`pyromq store CMD PATH`: look at, copy and repair a store's files. `rebuild`, `cut`, `accept-loss` and `quarantine`
with a position alone change PATH; `seed`, in store_seed.py, makes a new one.

File sizes are read off the files, or taken from the broker's configuration (`-c`). Exit codes of `verify`: 0 clean,
1 what opening the store repairs, 2 damage; those of errors are in exits.py.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from ..errors import ConfigError
from ..store.cutting import CutPlan
from ..store.files.real_disk import RealDisk
from ..store.layout import COMMIT_LOG
from ..store.tables.quarantine import QuarantinedRecord
from ..store.tools.findings import Report
from ..text import tables
from ..text.extras import install_command
from ..text.screen import wrapped
from ..text.values import moment
from .store_opening import opened, removed_unless_done
from .store_seed import seed
from .terminal.interrupts import confirm
from .terminal.options import together
from .terminal.printing import columns, print_lines
from .terminal.progress import until_stopped
from .terminal.tree import Tree, command

ANEW = "the same command begins anew"
_TOPICS_SHOWN = 10


@click.group(cls=Tree)
def store() -> None:
    """Verify, show, dump, rebuild, back up, seed and cut a store, accept a loss, see what was put aside."""


store.add_command(seed)


_arguments = together(
    click.argument("path", type=click.Path(path_type=Path)),
    click.option(
        "-c",
        "--config",
        "config_file",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        help="The broker's configuration, for file sizes and delay levels that cannot be read off the files.",
    ),
    click.option("--json", "as_json", is_flag=True, help="JSON instead of text."),
)


@command("pyromq store verify pyromq-data/store", "pyromq store verify PATH -c broker.conf --json", of=store)
@_arguments
def verify(path: Path, config_file: Path | None, as_json: bool) -> None:
    """Check log, queues, index and tables of PATH against each other.

    Exit code 0: clean, 1: opening the store repairs it, 2: damage. On a store that a broker runs on, what it may just
    be writing is a note; only what is read wrong counts.
    """
    from ..store.tools.verify import verify_store

    disk, config = opened(path, config_file)
    with until_stopped("verifying", f"Nothing was changed, {ANEW}", is_quiet=as_json) as report_progress:
        report = verify_store(disk, config, report_progress)
    _print(as_json, report.as_dict(), _report_lines(report))
    sys.exit(report.exit_code)


@command("pyromq store info pyromq-data/store", of=store)
@_arguments
def info(path: Path, config_file: Path | None, as_json: bool) -> None:
    """Show what PATH holds, without reading the records."""
    from ..store.tools.info import store_info

    found = store_info(*opened(path, config_file))
    print_lines(*[json.dumps(found)] if as_json else _info_lines(found))


@command("pyromq store dump PATH --limit 10", "pyromq store dump PATH --to all.parquet", of=store)
@_arguments
@click.option("--topic", help="Only records of this topic.")
@click.option("--queue", "queue_id", type=int, help="Only records of this queue.")
@click.option("--key", help="Only records with this key or unique key.")
@click.option("--since", "since_ms", type=int, help="Stored at or after this time (ms since 1970).")
@click.option("--until", "until_ms", type=int, help="Stored before this time (ms since 1970).")
@click.option("--limit", type=click.IntRange(min=0), help="At most so many.")
@click.option("--to", "target", type=click.Path(path_type=Path), help="Into this file, .parquet or .arrow, as columns.")
def dump(
    path: Path, config_file: Path | None, as_json: bool, limit: int | None, target: Path | None, **wanted: Any
) -> None:
    """Print the records of PATH, one a line. Without --json the most telling fields only.

    With --to messages go into a file instead, with the columns of the Spark source: bodies unpacked, batches as their
    messages. It takes --topic, --since and --until, and needs pyromq[spark]. What is damaged is told and left out, and
    the exit code is then 2.
    """
    if target is not None:
        _dump_to(path, target, as_json, {**wanted, "limit": limit, "config": config_file})
        return
    from ..store.tools.dump import DumpFilter, dump_records

    disk, config = opened(path, config_file)
    whole = sum(disk.size(f"{COMMIT_LOG}/{name}") for name in disk.list(COMMIT_LOG))
    on_screen = sys.stdout.isatty()  # it has the records themselves
    with until_stopped("dumping", f"The store was only read, {ANEW}", is_quiet=on_screen) as report_progress:
        for number, record in enumerate(dump_records(disk, config, DumpFilter(**wanted))):
            if limit is not None and number >= limit:
                return
            print_lines(json.dumps(record, ensure_ascii=False) if as_json else _record_line(record))
            if not number % 1000:
                report_progress(record["physicalOffset"] % (whole or 1), whole)


def _dump_to(path: Path, target: Path, as_json: bool, wanted: dict[str, Any]) -> None:
    names = {"topic": "topic", "since_ms": "startingTimestamp", "until_ms": "endingTimestamp"}
    for name, value in wanted.items():
        if value is not None and name not in names:
            raise click.UsageError(f"--to takes --topic, --since and --until, not --{name.removesuffix('_id')}")
    try:
        from ..spark.codec.files import store_to_file
        from ..spark.store.store_scan import Damage
    except ImportError as missing:
        raise ConfigError(f"--to needs {missing.name}: {install_command('spark')}") from None
    given = {names[name]: str(value) for name, value in wanted.items() if value is not None}
    damage: list[Damage] = []
    with until_stopped("dumping", f"{target} was not written, {ANEW}", is_quiet=as_json) as report_progress:
        count = store_to_file(path, target, damage.append, report_progress, **given)
    for one in damage:
        print_lines(f"damaged: {one}", err=True)
    result = {"file": str(target), "messages": count, "damaged": len(damage)}
    _print(as_json, result, [f"{count} messages in {target}"])
    if damage:
        sys.exit(2)


@command("pyromq store backup pyromq-data/store /backup/today", of=store)
@_arguments
@click.argument("target", type=click.Path(path_type=Path))
def backup(path: Path, target: Path, config_file: Path | None, as_json: bool) -> None:
    """Copy PATH into the new folder TARGET, also while a broker runs on it."""
    from ..ambient import SystemClock
    from ..store.tools.backup import backup_store

    disk, config = opened(path, config_file)
    if target.resolve().is_relative_to(path.resolve()):
        raise ConfigError(f"{target} lies inside the store {path}: name a folder outside of it for the backup")
    is_new = not target.exists()
    copy = RealDisk(target, create=True)
    then = f"Half a copy is no backup and was removed, {ANEW}"
    with until_stopped("copying", then, is_quiet=as_json) as report_progress, removed_unless_done(target, is_new):
        done = backup_store(disk, copy, config, SystemClock(), os.getpid(), report_progress)
    result = {"target": copy.root, "logStart": done.log_start, "logEnd": done.log_end}
    result |= {"files": done.files, "bytes": done.bytes}
    copied = f"{done.files} files, {done.bytes} bytes copied to {copy.root}"
    _print(as_json, result, [copied, f"the copy holds the log from {done.log_start} to {done.log_end}"])


@command("pyromq store rebuild pyromq-data/store", of=store)
@_arguments
def rebuild(path: Path, config_file: Path | None, as_json: bool) -> None:
    """Write queues and index of PATH anew from its log. No broker may run on it."""
    from ..ambient import SystemClock
    from ..store.tools.rebuild import rebuild_store

    disk, config = opened(path, config_file)
    then = "The log is whole: the same command, or the start of a broker, writes what is missing"
    with until_stopped("rebuilding", then, is_quiet=as_json) as report_progress:
        done = rebuild_store(disk, config, SystemClock(), os.getpid(), report_progress)
    result = {"records": done.records, "logEnd": done.end, "damaged": len(done.damage)}
    lines = [f"queues and index written from {done.records} records up to {done.end}"]
    lines += [f"damaged: {gap.end - gap.position} bytes at {gap.position}: {gap.reason}" for gap in done.damage]
    _print(as_json, result, lines)


@command(
    "pyromq store accept-loss pyromq-data/store --dry-run",
    "pyromq store accept-loss PATH --yes",
    of=store,
    name="accept-loss",
)
@_arguments
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what is missing.")
def accept(path: Path, config_file: Path | None, as_json: bool, yes: bool, dry_run: bool) -> None:
    """Let a broker start on PATH although a part of its log is gone for good. No broker may run on it.

    Records that are missing count as damaged from then on: nobody is shown them, their offsets stay taken.
    """
    from ..store.tools.by_hand import accept_loss

    disk, config = opened(path, config_file)
    missing = accept_loss(disk, config, dry_run=True)
    if missing and not dry_run:
        lost = sum(one.end - one.start for one in missing)
        if not yes and as_json:
            raise click.UsageError(f"this accepts the loss of {lost} bytes: give --yes, or --dry-run to see more")
        if not yes:
            confirm(f"{lost} bytes of the log are gone. Go on without them for good?")
        missing = accept_loss(disk, config)
    word = "missing" if dry_run else "accepted"
    lines = [
        f"{word}: {one.end - one.start} bytes of the log are lost, from {one.start} to {one.end}" for one in missing
    ]
    result = {word: [{"from": one.start, "to": one.end} for one in missing]}
    _print(as_json, result, lines or ["nothing is missing, nothing was changed"])


@command("pyromq store cut pyromq-data/store 1288490 --dry-run", "pyromq store cut PATH 1288490 --yes", of=store)
@_arguments
@click.argument("position", type=click.IntRange(min=0))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
def cut(path: Path, position: int, config_file: Path | None, as_json: bool, yes: bool, dry_run: bool) -> None:
    """Cut the log of PATH so that it ends at POSITION, where a record begins or ends. No broker may run on it.

    For a slave whose log is another one than its master's from there on: what it has of its own goes, and it follows
    again. What goes is kept in pyromq/cut-off below PATH. Queues, index, timers and offsets of groups go back with it.
    """
    from ..ambient import SystemClock
    from ..store.tools.cut import cut_store, preview_cut

    disk, config = opened(path, config_file)
    with until_stopped("looking", f"Nothing was changed, {ANEW}", is_quiet=as_json) as report_progress:
        plan = preview_cut(disk, config, position, report_progress)
    what = f"{plan.records} records with {plan.bytes} bytes, from {plan.position} to {plan.end}"
    if plan.records and not dry_run and not yes:
        if as_json:
            raise click.UsageError(f"this cuts off {what}: give --yes, or --dry-run to see more")
        confirm(f"{what} go out of the log. Cut them off?")
    copy = ""
    if not dry_run and plan.bytes:
        then = "What was begun is finished by the same command, or by the start of a broker"
        with until_stopped("cutting", then, is_quiet=as_json) as report_progress:
            copy = cut_store(disk, config, SystemClock(), position, report_progress)
    result: dict[str, Any] = {"position": plan.position, "end": plan.end, "records": plan.records, "bytes": plan.bytes}
    result |= {"topics": dict(plan.by_topic.most_common()), "copy": copy or None, "dryRun": dry_run}
    _print(as_json, result, _cut_lines(plan, what, copy, dry_run))


def _cut_lines(plan: CutPlan, what: str, copy: str, dry_run: bool) -> Iterator[str]:
    if not plan.bytes:
        yield f"the log ends at {plan.position} already, nothing was changed"
        return
    yield f"would go: {what}" if dry_run else f"cut off: {what}"
    for topic, count in plan.by_topic.most_common(_TOPICS_SHOWN):
        yield f"{count} of {topic}"
    if len(plan.by_topic) > _TOPICS_SHOWN:
        yield f"... and of {len(plan.by_topic) - _TOPICS_SHOWN} more topics (--json has all)"
    if plan.records:
        yield f"stored from {moment(plan.first_time_ms)} to {moment(plan.last_time_ms)}"
    if copy:
        yield f"kept in {copy}"


@command("pyromq store quarantine pyromq-data/store", "pyromq store quarantine PATH 1288490 --release", of=store)
@_arguments
@click.argument("position", type=click.IntRange(min=0), required=False)
@click.option("--release", is_flag=True, help="Let the record be tried again: the next start puts it again.")
def quarantine(path: Path, config_file: Path | None, as_json: bool, position: int | None, release: bool) -> None:
    """List the records of PATH that were put aside, because a loop of the broker could not handle them.

    With a POSITION that record is put aside, or released. No broker may run on PATH then. A record that is put aside
    stays in the log; the broker's own loops (delays, timers, transactions, dead letters) leave it out.
    """
    from ..ambient import SystemClock
    from ..store.tables.quarantine import read_quarantine
    from ..store.tools.by_hand import quarantine_by_hand, release_by_hand

    disk, config = opened(path, config_file)
    if position is None and release:
        raise click.UsageError("--release needs the POSITION of a record; the list shows them")
    if position is None:
        found = read_quarantine(disk)
    elif release:
        found = [release_by_hand(disk, position, SystemClock().now_ms)]
    else:
        found = [quarantine_by_hand(disk, config, position, SystemClock().now_ms)]
    _print(as_json, to_builtins(found), map(_quarantined_line, found) if found else ["no record is put aside"])


def _quarantined_line(one: QuarantinedRecord) -> str:
    state = " released, tried at the next start" if one.is_released else ""
    copy = f" copy={one.copy_name}" if one.is_copied else ""
    where = f"{one.position} {one.topic} {one.queue_id} {one.size} bytes"
    return f"{where} by={one.loop} at={one.time_ms}{copy}{state}: {one.reason}"


def _print(as_json: bool, found: Any, lines: Iterable[str]) -> None:
    """Print one JSON value for programs, or the sentences for people."""
    if as_json:
        print_lines(json.dumps(found))
    else:
        print_lines(*(part for line in lines for part in wrapped(line, columns(), "  ")))


def _report_lines(report: Report) -> Iterator[str]:
    for finding in report.findings:
        place = finding.file + ("" if finding.offset is None else f" at {finding.offset}")
        remedy = f"{finding.remedy[0].upper()}{finding.remedy[1:]}."
        yield f"{finding.level.name.lower()}: {place}: {finding.what}. {remedy}"
    if (more := sum(report.counts.values()) - len(report.findings)) > 0:
        yield f"... and {more} more"
    yield (
        f"log {report.log_start} to {report.log_end}: {report.records} records; {report.queues} queues with "
        f"{report.queue_entries} entries; {report.index_files} index files with {report.index_entries} entries; "
        f"{report.tables} tables"
    )
    if report.in_use:
        yield "a broker runs on this store: what it is just writing may look wrong. Verify again once it is stopped"
    yield ("clean", "opening the store repairs it", "damaged")[report.exit_code]


def _info_lines(found: dict[str, Any]) -> Iterator[str]:
    holds = [{"table": name, "holds": counts} for name, counts in found["tables"].items()]
    yield from tables.report(found | {"checkpoint": [found["checkpoint"]], "tables": holds}, columns())


def _record_line(record: dict[str, Any]) -> str:
    if "damaged" in record:
        return f"{record['physicalOffset']} DAMAGED {record['size']} bytes: {record['damaged']}"
    keys = record["properties"].get("KEYS", "")
    return (
        f"{record['physicalOffset']} {record['topic']} {record['queueId']} {record['queueOffset']} "
        f"{record['storeTimestamp']} {record['bodyLength']} bytes keys={keys} id={record['offsetMsgId']}"
    )
