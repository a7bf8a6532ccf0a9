"""Commands as they run at a terminal: a pseudo-terminal, keys that are pressed, and what is on the screen."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.standing import Standing, standing

LIMIT_S = 30.0


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("terminal")) as found:
        found.shown("topic", "create", "orders")
        found.shown("topic", "create", "orders-2")
        found.shown("group", "create", "billing")
        yield found


class Screen:
    """Tests only: `pyromq` at a terminal of 80 columns; what it wrote so far is `text`."""

    def __init__(self, *words: str, **environment: str) -> None:
        self._end, its_end = pty.openpty()
        base = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pyromq.cli.main", *words],
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            start_new_session=True,
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
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Return the exit code."""
        while self._read():
            pass
        os.close(self._end)
        return self.process.wait(LIMIT_S)


def test_pub_says_what_it_reads_and_ends_at_the_first_interrupt(stands: Standing) -> None:
    screen = Screen("pub", "orders", "--lines", "-n", stands.names)
    assert "Ctrl-D or Ctrl-C ends it" in screen.wait_for("Each line is a message")
    screen.press(b"hello\n")
    screen.wait_for("offset 0")
    screen.interrupt()
    assert screen.end() == 0, screen.text
    assert "Traceback" not in screen.text
    one = Screen("pub", "orders", "-n", stands.names)
    one.wait_for("Ctrl-D sends it")
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
    assert "pip install 'pyromq[spark]'" in done.stderr
