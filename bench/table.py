"""All figures of the native kernel's table in one go: `python bench/table.py --to figures.md [--minutes 35]`.

Runs the scripts that make them one after another, our native and Python kernels, Java's broker where Maven is present
and the bare echo taking turns inside each, and writes a table (and all that the scripts printed) to --to and the
figures as JSON beside it, anew after each part. A part that fails or finds no time is named, the others go on. Stores
lie in one folder that is removed at the end. `--quick` runs everything with small numbers, to see that it works.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.results import number, shown, stamp  # noqa: E402

STOP_S = 40  # for a script that is told to end to remove what it made
SERVERS = ("native", "python", "java", "echo")
UNITS = {
    "rate": "msg/s",
    "p50_us": "p50 us",
    "p99_us": "p99 us",
    "p999_us": "p99.9 us",
    "max_us": "max us",
    "cpu_us": "CPU us a message",
    "cpu_share": "CPU, share of the machine",
    "average_ms": "average ms",
    "max_ms": "max ms",
    "consumed": "consumed msg/s",
    "start_s": "ready, s",
    "idle_percent": "idle CPU %",
    "idle_mb": "anonymous MB idle",
    "messages": "messages",
    "mb_after_tenth": "MB after a tenth of the messages",
    "mb_after": "MB after all messages",
}
# What is of interest in a row; rate and latencies of the rows that are not named here.
FIGURES = {
    "rest": ("start_s", "idle_percent", "idle_mb", "messages", "mb_after_tenth", "mb_after"),
    "apache": ("rate", "average_ms", "max_ms", "cpu_share", "cpu_us", "consumed"),
    "tls": ("rate", "cpu_us"),
    "tail": ("rate", "p50_us", "p99_us", "p999_us", "max_us", "cpu_us"),
}
USUAL = ("rate", "p50_us", "p99_us", "cpu_us")
STATES = ("scale", "backlog", "synthetic", "cold")  # rows that compare states of one broker: their own tables say it
AIMS = {
    "send-64": "6x Java's rate, 3x NATS (111,000/s), a tenth of Java's CPU",
    "send-1024": "5x Java's rate, a tenth of its CPU",
    "send-1": "1.25x the echo's p50 and p99",
    "sync-64": "3.5x Java's rate",
    "sync-1": "1.25x the echo's with pwrite and fdatasync",
    "batch": "3.5x Java's rate, 1,500,000/s",
    "drain-32": "2x Java's rate, 1,100,000/s",
    "drain-2048": "1,700,000/s",
    "e2e": "a tenth of Java's p99",
    "tls": "reported",
    "apache": "above Java's",
    "tail": "no stall above 5 ms at half load",
    "rest": "ready under 1 s, 80 MB idle, memory flat",
}


class Part(NamedTuple):
    """A script and its arguments. `most_min`: so long may it take; `least_min`: with less it is not begun."""

    name: str
    command: list[str]
    most_min: float
    least_min: float = 0.5
    quick: tuple[str, ...] = ()
    compares: bool = True  # takes --python and --no-java


BROKER_ROWS = ("send-64", "send-1024", "send-1", "batch", "drain-32", "drain-2048", "e2e", "sync-64", "sync-1")


def broker(*rows: str) -> list[str]:
    return ["bench/broker.py", *(word for row in rows for word in ("--row", row)), "--seconds", "2"]


PARTS = [
    Part("sends and drains", broker(*BROKER_ROWS), 9, 2, ("--runs", "1", "--seconds", "0.5")),
    Part("at rest", broker("rest"), 6, 1, ("--messages", "100000", "--runs", "1")),
    Part("TLS and signed sends", ["bench/tls.py", "--seconds", "2"], 3, 1, ("--runs", "1", "--seconds", "0.5")),
    Part("Apache's benchmark", ["bench/apache.py", "--runs", "3", "--seconds", "21"], 7, 2, ("--runs", "1")),
    Part(
        "connections and queues",
        ["bench/scale.py"],
        6,
        2,
        ("--connections", "100", "--polls", "500", "--queues", "1000", "--seconds", "0.5"),
        compares=False,
    ),
    Part(
        "backlogs and cold reads",
        ["bench/backlog.py", "--limit-s", "240"],
        9,
        3,
        ("--messages", "1000000", "--seconds", "0.5"),
        compares=False,
    ),
    Part("where the time goes", ["bench/hotspots.py"], 3, 1, ("--row", "send-64", "--seconds", "1"), compares=False),
    Part("several brokers", ["bench/cluster.py"], 1, 0.5, ("--seconds", "0.5"), compares=False),
    Part("the tail of sends", ["bench/tail.py"], 11.5, 1.5, ("--minutes", "0.2"), compares=False),
]
TAIL = "bench/tail.py"
TAIL_MIN, TAIL_AROUND_MIN = 10.0, 0.7  # of sends, and what comes before and after them


class Outcome(NamedTuple):
    part: str
    command: str
    began: str
    minutes: float
    load: tuple[float, float]  # when it began, when it ended
    why: str  # empty: all went well
    printed: str
    lines: list[dict[str, Any]]


class Runner:
    """Runs parts until the time is up."""

    def __init__(self, chosen: argparse.Namespace, folder: Path) -> None:
        self._chosen = chosen
        self._folder = folder
        self._end: float = time.monotonic() + chosen.minutes * 60

    def left_min(self) -> float:
        return (self._end - time.monotonic()) / 60

    def run(self, part: Part) -> list[Outcome]:
        """The rows of a script that failed are tried again alone, once."""
        outcome = self._once(part)
        if not outcome.why or part.command[0] != "bench/broker.py":
            return [outcome]
        made = {line["row"] for line in outcome.lines}
        missing = [word for word in part.command if word in BROKER_ROWS and word not in made]
        return [outcome, *(self._once(part._replace(command=broker(row), most_min=2)) for row in missing)]

    def _once(self, part: Part) -> Outcome:
        began, load, figures = time.monotonic(), os.getloadavg()[0], self._folder / "figures"
        command = self._command(part)
        shown_command = " ".join(["python", *command])
        figures.unlink(missing_ok=True)
        if self.left_min() < part.least_min and not self._chosen.quick:
            why = f"cut: {max(0.0, self.left_min()):.1f} minutes are left, it wants {part.least_min:g} at least"
            return Outcome(part.name, shown_command, stamp(), 0, (load, load), why, "", [])
        print(f"\n== {part.name}: {shown_command} ({self.left_min():.1f} min left)", flush=True)
        if part.command[0] != "bench/cluster.py":
            command = [*command, "--json", str(figures)]
        at_most = min(part.most_min, max(self.left_min(), part.least_min)) * 60
        printed, why = _captured(command, at_most, self._folder)
        lines = [json.loads(line) for line in figures.read_text().splitlines()] if figures.exists() else []
        minutes = (time.monotonic() - began) / 60
        return Outcome(part.name, shown_command, stamp(), minutes, (load, os.getloadavg()[0]), why, printed, lines)

    def _command(self, part: Part) -> list[str]:
        command = [*part.command]
        if part.compares:
            command += ["--python"] + (["--no-java"] if self._chosen.no_java else [])
        if part.command[0] == TAIL:
            minutes = min(TAIL_MIN, max(part.least_min, self.left_min()) - TAIL_AROUND_MIN)
            command += ["--minutes", f"{minutes:.1f}"]
        if part.command[0] == "bench/backlog.py":  # Making a backlog may take half of the time that is left
            command[-1] = str(round(min(float(command[-1]), max(20.0, self.left_min() * 30))))
        return command + list(part.quick if self._chosen.quick else ())


def _captured(command: list[str], seconds: float, folder: Path) -> tuple[str, str]:
    """What a script printed, shown as it comes too, and why it did not end well."""
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    printed, said = _Echo(process.stdout, sys.stdout), _Echo(process.stderr, sys.stderr)
    why = ""
    try:
        code = process.wait(seconds)
        why = f"failed with exit code {code}: {said.last()}" if code else ""
    except subprocess.TimeoutExpired:
        why = f"cut after {seconds / 60:.1f} minutes"
    finally:
        _end(process)
        printed.join(STOP_S)
        said.join(STOP_S)
    return "".join(printed.lines), why


class _Echo(threading.Thread):
    """Keeps what comes out of a pipe, and shows it."""

    def __init__(self, source: IO[str] | None, target: TextIO) -> None:
        super().__init__(daemon=True)
        assert source is not None
        self._source, self._target = source, target
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        for line in self._source:
            self.lines.append(line)
            print(line, end="", file=self._target, flush=True)

    def last(self) -> str:
        """An error's own line, most likely."""
        self.join(1)
        return self.lines[-1].strip() if self.lines else "it said nothing"


def _end(process: subprocess.Popen[str]) -> None:
    """First so that it removes what it made, then for good, with all that it started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)  # the group lives as long as anyone in it
    except ProcessLookupError:
        return


# -- what is written --------------------------------------------------------------------------------------------------


def summary(outcomes: list[Outcome]) -> list[str]:
    """One line for each row and figure, all servers side by side."""
    rows: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    commands: dict[str, str] = {}
    for outcome in outcomes:
        for line in outcome.lines:
            if line["row"] not in STATES and not line["row"].startswith("profile"):
                rows.setdefault((line["row"], line["what"]), {})[line["server"]] = line
                commands[line["row"]] = alone(line["row"], outcome.command)
    text = ["| row | figure | native | Python kernel | Java 5.5.0 | echo in C | native to Java | to echo | load |"]
    text.append("|---|---|---|---|---|---|---|---|---|")
    for (row, what), by_server in rows.items():
        text += [_line(row, what, figure, by_server) for figure in FIGURES.get(row, USUAL)]
    text += ["", "| row | what | aim | made alone by |", "|---|---|---|---|"]
    for row, command in commands.items():
        what = next((what for name, what in rows if name == row), "") if row != "tls" else "plain, TLS, signed"
        text.append(f"| `{row}` | {what} | {AIMS.get(row, '')} | `{command}` |")
    return text


def _line(row: str, what: str, figure: str, by_server: dict[str, dict[str, Any]]) -> str:
    values = {name: [run[figure] for run in line["runs"] if figure in run] for name, line in by_server.items()}
    middle = {name: statistics.median(found) for name, found in values.items() if found}
    cells = [shown(values[name]) if values.get(name) else "-" for name in SERVERS]
    ratios = [
        f"{middle['native'] / middle[other]:.2f}" if "native" in middle and middle.get(other) else "-"
        for other in ("java", "echo")
    ]
    load = max(line["load"] for line in by_server.values())
    name = f"`{row}` {what}" if row == "tls" else f"`{row}`"
    return f"| {name} | {UNITS[figure]} | {' | '.join([*cells, *ratios])} | {load:.1f} |"


def alone(row: str, command: str) -> str:
    return f"python bench/broker.py --row {row} --python" if "bench/broker.py" in command else command


def written(outcomes: list[Outcome], chosen: argparse.Namespace, done: bool) -> str:
    text = [
        "# The native kernel's table",
        "",
        f"Made by `python bench/table.py` on {stamp()}, {_commit()}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}, Python {platform.python_version()}. Median, and lowest to highest of the runs; "
        "`load` is the machine's load average when a row ended.",
        "",
    ]
    if not done:
        text += ["**Not finished: parts are still missing.**", ""]
    faults = [f"- {one.part}: {one.why} (`{one.command}`)" for one in outcomes if one.why]
    text += ["## Not complete", "", *faults, ""] if faults else []
    text += ["## Figures", "", *summary(outcomes), "", "## What the scripts printed", ""]
    for one in outcomes:
        first, last = (f"{value:.1f}" for value in one.load)
        text += [f"### {one.part}", "", f"`{one.command}`: {number(one.minutes)} minutes, load {first} to {last}."]
        text += ["", f"**{one.why}**"] if one.why else []
        text += ["", one.printed.strip(), ""]
    return "\n".join(text)


def _commit() -> str:
    git = shutil.which("git")
    command = [git or "git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip() if git else ""
    return f"commit {found}" if found else "no commit known"


def write(outcomes: list[Outcome], chosen: argparse.Namespace, done: bool) -> None:
    target = Path(chosen.to)
    target.write_text(written(outcomes, chosen, done))
    target.with_suffix(".json").write_text(json.dumps([one._asdict() for one in outcomes], indent=1))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--to", help="file for the table; figures go beside it as .json")
    options.add_argument("--minutes", type=float, default=35, help="bound of the whole; what has no time is named")
    options.add_argument("--no-java", action="store_true", help="without the Java broker")
    options.add_argument("--quick", action="store_true", help="small numbers: does everything work?")
    options.add_argument("--part", action="append", choices=[part.name for part in PARTS], help="these alone")
    options.add_argument("--folder", help="where stores go: up to 22 GB")
    chosen = options.parse_args()
    if chosen.to is None:  # `make bench` runs all files of this folder, and the parts by themselves are enough
        print("say where the table goes: --to FILE")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if chosen.folder is not None:
        Path(chosen.folder).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-table-", dir=chosen.folder))
    outcomes: list[Outcome] = []
    try:
        runner = Runner(chosen, folder)
        parts = [part for part in PARTS if chosen.part is None or part.name in chosen.part]
        for place, part in enumerate(parts, 1):
            outcomes += runner.run(part)
            write(outcomes, chosen, place == len(parts))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{chosen.to}: {sum(not one.why for one in outcomes)} of {len(outcomes)} parts complete")


if __name__ == "__main__":
    main()
