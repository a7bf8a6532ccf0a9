"""Commands as they run at a terminal: a pseudo-terminal, keys that are pressed, and what is on the screen."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyromq.cli.cluster.top_screen import Frame, pressed_keys, sparkline
from pyromq.cli.cluster.top_screen import Screen as TopScreen
from pyromq.cli.main import cli
from pyromq.cli.terminal.interrupts import interruptible
from pyromq.cli.terminal.output_file import whole_file
from pyromq.cli.terminal.progress import logged
from pyromq.model.names import dlq_topic
from pyromq.text.extras import install_command
from tests.cli.standing import Standing, standing
from tests.interop.waiting import eventually

LIMIT_S = 180.0  # a busy machine takes half a minute to start a command


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("terminal")) as found:
        found.shown("topic", "create", "orders")
        found.shown("topic", "create", "orders-2")
        found.shown("group", "create", "billing")
        yield found


class Screen:
    """Tests only: `pyromq` at a terminal of 80 columns; what it wrote so far is `text`. Results may go elsewhere."""

    def __init__(self, *words: str, results: int | None = None, **environment: str) -> None:
        self._end, its_end = pty.openpty()
        base = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pyromq.cli.main", *words],
            stdin=its_end,
            stdout=its_end if results is None else results,
            stderr=its_end,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that ^C is a signal
            env=base | {"TERM": "xterm", "COLUMNS": "80", "LINES": "40"} | environment,
        )
        os.close(its_end)
        self.text = ""

    def wait_for(self, words: str) -> str:
        """Return all that was written once the words are on the screen."""
        until = time.monotonic() + LIMIT_S
        while words not in self.text:
            assert time.monotonic() < until, self.text
            assert self._read() or words in self.text, self.text
        return self.text

    def _read(self) -> bool:
        if not select.select([self._end], [], [], LIMIT_S)[0]:
            return False
        try:
            data = os.read(self._end, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.text += data.decode()
        return bool(data)

    def press(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def interrupt(self) -> None:
        """Press Ctrl-C once it waits: Python does not see a signal that comes just before a read blocks."""
        before = None
        while (now := self._stat()) != before or now[0] != "S":  # one that runs may be kept waiting by others
            before = now
            time.sleep(0.5)
        self.process.send_signal(signal.SIGINT)

    def _stat(self) -> list[str]:
        """Return its state and how much time it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return [fields[0], *fields[11:13]]

    def end(self) -> int:
        """Return the exit code."""
        while self._read():
            pass
        os.close(self._end)
        return self.process.wait(LIMIT_S)


def test_pub_says_what_it_reads_and_ends_at_the_first_interrupt(stands: Standing) -> None:
    screen = Screen("pub", "orders", "--lines", "-n", stands.names)
    assert "Each line is a message" in screen.wait_for("Ctrl-D or Ctrl-C ends it")
    screen.press(b"hello\n")
    screen.wait_for("offset 0")
    screen.interrupt()
    assert screen.end() == 0, screen.text
    assert "Traceback" not in screen.text
    one = Screen("pub", "orders", "-n", stands.names)
    one.wait_for("Ctrl-D sends it, Ctrl-C does not")
    one.press(b"half a mess")
    one.interrupt()
    assert one.end() == 1
    assert "nothing was sent" in one.text


def test_pub_sends_what_was_typed(stands: Standing) -> None:
    screen = Screen("pub", "orders-2", "-n", stands.names)
    screen.wait_for("Ctrl-D sends it")
    screen.press(b"two\nlines\n\x04")
    assert screen.end() == 0, screen.text
    (row,) = stands.rows("sub", "orders-2", "--from", "first", "--count", "1")
    assert (row["body"], row["tag"], row["keys"]) == ("two\nlines", "", [])


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("pyromq topic describe or", ["orders", "orders-2"]),
        ("pyromq pub or", ["orders", "orders-2"]),
        ("pyromq sub orders -g b", ["billing"]),
        ("pyromq group lag ", ["billing"]),
        ("pyromq group reset billing orders", ["orders", "orders-2"]),
        ("pyromq topic forward orders orders-", ["orders-2"]),
        ("pyromq store verify or", None),
    ],
)
def test_completion_knows_topics_and_groups(stands: Standing, typed: str, found: list[str] | None) -> None:
    words = typed.split(" ")
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1), "_PYROMQ_COMPLETE": "bash_complete"}
    for servers, expected in ((stands.names, found), ("127.0.0.1:1", [] if found else None)):
        environment = os.environ | asked | {"PYROMQ_NAMESRV": servers}
        program = Path(sys.executable).with_name("pyromq")
        done = subprocess.run([str(program)], capture_output=True, text=True, env=environment, check=False)
        assert done.stderr == ""
        lines = [line.removeprefix("plain,") for line in done.stdout.splitlines() if line.startswith("plain,")]
        assert lines == (expected or [])


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("pyspark", ("pipeline", "search", "--topic", "orders")),
        ("pyarrow", ("store", "dump", ".", "--to", "all.parquet")),
        ("pyspark", ("spark", "shell")),
    ],
)
def test_a_missing_package_is_one_line_with_the_cure(tmp_path: Path, package: str, words: tuple[str, ...]) -> None:
    (tmp_path / "commitlog").mkdir()
    hidden = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv[0] = 'pyromq'; from pyromq.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden, *words], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 78, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert install_command("spark") in done.stderr


COLOUR = re.compile(r"\x1b\[\d*m")


def seen(*words: str, **environment: str) -> str:
    screen = Screen(*words, results=None, **environment)
    screen.end()
    return screen.text


def test_colours_have_a_meaning_and_can_be_left_out(stands: Standing) -> None:
    stands.send("orders", "x")
    stands.shown("group", "reset", "billing", "orders", "--time", "0", "--yes")
    here = ("-n", stands.names)
    assert "\x1b[32mok  \x1b[0m" in seen("doctor", *here)
    assert re.search(r"lag +\x1b\[0m\x1b\[33m\d+\x1b\[0m", seen("group", "lag", "billing", *here))
    (row, *_) = stands.rows("cluster", "brokers")
    assert "\x1b[32mready\x1b[0m" in seen("inspect", "-b", row["address"])
    assert "\x1b[2m20" in seen("sub", "orders", "--from", "first", "--count", "1", *here)
    for words in (("doctor",), ("group", "lag", "billing"), ("top", "--once")):
        assert not COLOUR.search(seen(*words, *here, NO_COLOR="1"))
        assert not COLOUR.search(seen(*words, *here, TERM="dumb"))
        assert not COLOUR.search(stands.shown(*words))


@pytest.mark.parametrize("columns", [60, 80])
def test_no_word_is_broken(stands: Standing, columns: int) -> None:
    stands.run("topic", "create", "a-topic-with-a-long-name-that-stands-in-many-lines", "--perm", "r")
    here, store = ("-n", stands.names), str(stands.world.folder / "broker-a")
    (sent,) = stands.send("orders", "a body of many words, so that its line is wider than the screen of the test")
    for words in (
        ("doctor", *here),
        ("cluster", "brokers", *here),
        ("topic", "describe", "orders", *here),
        ("group", "lag", "billing", *here),
        ("top", "--once", *here),
        ("topic", "delete", "ordres", *here),
        ("topic", "create", "b@d", *here),
        ("msg", "get", "orders", sent, *here),
        ("config", "list", "--daemon", "namesrv"),
        ("profile", "list"),
        ("store", "info", store),
        ("store", "verify", store, "--json"),
        ("store", "accept-loss", store, "--dry-run"),
        ("completion", "tcsh"),
    ):
        lines = COLOUR.sub("", seen(*words, COLUMNS=str(columns))).replace("\r", "").splitlines()
        # A command to be copied stays whole, and so does what has no blank in it, also behind its label.
        kept = re.compile(r"pyromq.cli.main|^{|^ *[a-z ]+  \S+$")
        long = [line for line in lines if len(line) > columns and not kept.search(line)]
        assert [line for line in long if " " in line.strip()] == [], words


def test_watch_and_its_like_say_how_wide_a_pipe_is(stands: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = stands.shown("cluster", "brokers").splitlines()
    monkeypatch.setenv("COLUMNS", "40")
    narrow = stands.shown("cluster", "brokers").splitlines()
    assert (wide[0].split()[0], narrow[0].split()) == ("cluster", ["cluster", "DefaultCluster"])
    assert max(map(len, narrow)) <= 40


@pytest.mark.parametrize("words", [(), ("topic",), ("broker", "config"), ("spark",)])
def test_a_group_without_a_command_shows_its_help(words: tuple[str, ...]) -> None:
    program = [sys.executable, "-m", "pyromq.cli.main", *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert "\nCommands:\n" in done.stderr
    assert "\\n" not in done.stderr


@pytest.mark.parametrize("words", [("apply", "missing"), ("msg", "import", "missing"), ("config", "check", "missing")])
def test_a_missing_file_is_named_in_words(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, list(words))
    assert (done.exit_code, done.stdout) == (78, "")
    assert re.fullmatch(r"pyromq: [^[]*missing: No such file or directory\n", done.stderr), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "delete", "asked"),
        ("group", "reset", "billing", "asked", "--to", "first"),
        ("dlq", "purge", "billing"),
        ("msg", "replay", "asked", "-g", "billing"),
    ],
)
def test_the_first_interrupt_ends_a_question(stands: Standing, words: tuple[str, ...]) -> None:
    stands.send("asked", "x")
    stands.send(dlq_topic("billing"), "dead")

    def found() -> list[Any]:
        return [stands.rows("topic", "list", "--all"), stands.report("group", "describe", "billing")["queues"]]

    before = found()
    screen = Screen(*words, "-n", stands.names)
    screen.wait_for("Go on?")
    screen.press(b"\x03y\n")
    assert (screen.end(), "nothing was changed" in screen.text, "Traceback" in screen.text) == (1, True, False)
    assert found() == before


def test_an_interrupt_that_the_loop_has_noted_ends_the_next_read() -> None:
    reads: list[str] = []

    async def read() -> None:
        os.kill(os.getpid(), signal.SIGINT)  # while it does something else
        with interruptible():
            reads.append("blocked")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(read())
    assert reads == []


@pytest.mark.parametrize(
    ("words", "typed", "said"),
    [
        (
            ("msg", "import", "-", "--yes"),
            b'{"topic": "orders", "body": "x"}\n',
            "pyromq: stopped: 1 messages were sent",
        ),
        (("req", "orders", "x", "--timeout", "600"), b"", "pyromq: stopped"),
    ],
)
def test_the_first_interrupt_ends_what_waits(stands: Standing, words: tuple[str, ...], typed: bytes, said: str) -> None:
    def count() -> int:
        return int(stands.report("topic", "describe", "orders")["messages"])

    before = count()
    screen = Screen(*words, "-n", stands.names)
    screen.press(typed)
    eventually(lambda: count() > before, "the message is there")
    screen.interrupt()
    assert (screen.end(), "Traceback" in screen.text) == (1, False)
    assert said in screen.text


def test_an_export_that_is_broken_off_leaves_what_was_there(stands: Standing, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_text("before")
    with suppress(KeyboardInterrupt), whole_file(str(file)) as write:
        write("half")
        raise KeyboardInterrupt
    assert (file.read_text(), [each.name for each in tmp_path.iterdir()]) == ("before", ["all.jsonl"])
    file.chmod(0o600)
    stands.shown("msg", "export", "orders", str(file), "--most", "1")
    assert file.stat().st_mode & 0o777 == 0o600
    assert '"topic": "orders"' in file.read_text()
    done = stands.run("msg", "export", "orders", str(tmp_path / "none" / "x.jsonl"))
    assert (done.exit_code, done.stderr) == (78, f"pyromq: {tmp_path}/none/x.jsonl: No such file or directory\n")


def test_results_go_where_the_shell_sends_them_while_a_bar_is_drawn(stands: Standing, tmp_path: Path) -> None:
    stands.send("exported", *map(str, range(40)))
    store, file = str(stands.world.folder / "broker-a"), tmp_path / "results"
    for words in (("msg", "export", "exported", "-n", stands.names), ("store", "dump", store, "--topic", "exported")):
        with file.open("wb") as results:
            screen = Screen(*words, results=results.fileno())
            assert screen.end() == 0, screen.text
        assert "━" in screen.text  # the bar
        assert (file.read_text().count("exported"), 'exported"' in screen.text) == (40, False), words


def test_keys_of_top(stands: Standing) -> None:
    screen = Screen("top", "--every", "60", "-n", stands.names)
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", screen.wait_for("h keys, q end"))
    assert "by rate" in screen.text
    assert "trend" in screen.wait_for("▁")
    screen.press(b"h")
    screen.wait_for("turn the order round")
    screen.press(b"s")
    screen.wait_for("by messages")
    screen.press(b"sr")
    screen.wait_for("by name, turned round")
    screen.press(b"q")
    assert screen.end() == 0, screen.text
    stopped = Screen("top", "--every", "60", "-n", stands.names)
    stopped.wait_for("h keys, q end")
    stopped.interrupt()
    assert stopped.end() == 0


def test_a_sparkline_is_as_high_as_its_greatest_rate() -> None:
    assert sparkline([0.0, 50.0, 100.0]) == "▁▅█"
    assert sparkline([0.0, 0.0]) == "▁▁"


def test_sorting_of_top() -> None:
    screen = TopScreen(9)
    topics = [
        {"topic": name, "perSecond": rate, "messages": count}
        for name, rate, count in (("a", 1.0, 5), ("b", 3.0, 2), ("c", 2.0, 9))
    ]
    screen.show(Frame(at=1.0, topics=topics), 0)
    orders = []
    for key in "ssr":
        orders.append([line.split()[0] for line in screen.lines(None) if line][-3:])
        screen.press(key, asyncio.Event())
    orders.append([line.split()[0] for line in screen.lines(None) if line][-3:])
    assert orders == [["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"], ["c", "b", "a"]]


def test_top_once_cuts_no_table() -> None:
    name = "a-topic-with-a-name-that-is-long-" * 2
    frame = Frame(at=1.0, topics=[{"topic": name, "perSecond": 1.0, "messages": 1_234_567, "queues": 8}])
    for shows_trends, is_whole in ((False, True), (True, False)):
        screen = TopScreen(9, shows_trends=shows_trends)
        screen.show(frame, 0)
        shown = "\n".join(screen.lines(60))
        assert (name in shown and "1234567" in shown.replace(",", "")) is is_whole, shown


def test_a_trend_of_top_begins_anew_when_its_topic_was_gone() -> None:
    screen = TopScreen(9)
    for names in ("ab", "ab", "b", "ab"):
        rows = [{"topic": name, "perSecond": 1.0, "messages": 1} for name in names]
        screen.show(Frame(at=1.0, topics=rows), 0)
    trends = [line.split()[-1] for line in screen.lines(None) if line][-2:]
    assert trends == ["█", "████"]


async def test_a_terminal_that_goes_away_is_not_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    end, its_end = pty.openpty()
    with open(its_end, "rb", buffering=0) as terminal:  # noqa: ASYNC230
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys, "stdout", terminal)
        pressed: list[str] = []
        with pressed_keys(pressed.append, wanted=True) as is_changed:
            os.write(end, b"s")
            await is_changed.wait()
            is_changed.clear()
            os.close(end)
            await is_changed.wait()
            assert not asyncio.get_running_loop().remove_reader(its_end)
        assert pressed == ["s"]


def test_progress_is_a_bar_on_a_terminal_and_log_lines_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    report = logged("verifying", lambda: now[0])
    with caplog.at_level("INFO", "pyromq.cli"):
        for second in range(0, 12, 2):
            now[0] = float(second)
            report(second, 20)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["verifying"]
