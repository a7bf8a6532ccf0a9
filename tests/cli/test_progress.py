"""Progress is shown where somebody looks: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from pyromq.cli.terminal import progress
from pyromq.cli.terminal.progress import counted
from pyromq.model.names import dlq_topic
from tests.cli.standing import standing


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "is_quiet", "drawn"),
    [(Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False)],
)
def test_a_bar(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, is_quiet: bool, drawn: bool) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with counted(10, "copying [a/b] \x1b[2J", is_quiet=is_quiet) as done:
        done(4)
        done(6)
    assert (R"copying [a/b] \x1b[2J" in stream.getvalue() and "10/10" in stream.getvalue()) is drawn


@pytest.mark.parametrize(("length", "figures"), [(8, "percent=50 of=8"), (0, "")])
def test_a_log_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, length: int, figures: str
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    with caplog.at_level("INFO", "pyromq.cli"), counted(length, "orders to orders-wide") as done:
        done(4)
    assert caplog.messages == [f"orders to orders-wide done=4 {figures}".strip()]


def test_every_copy_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    file, dead = str(tmp_path / "all.jsonl"), dlq_topic("billing")
    with standing(tmp_path) as one:
        one.shown("group", "create", "billing")
        one.send("orders", "a", "b")
        one.send(dead, "c", "d")
        for words, what in (
            (("topic", "forward", "orders", "wide", "--queues", "16"), "orders to wide"),
            (("msg", "replay", "orders", "-g", "billing"), "orders to group billing"),
            (("dlq", "resend", "billing", "--to", "orders"), "dead letters of billing"),
            (("msg", "export", "wide", file), "wide"),
            (("msg", "import", file), file),
        ):
            done = one.run(*words, *([] if "export" in words else ["--yes"]))
            last = [line for line in done.stderr.splitlines() if "percent=" in line][-1]
            assert f"INFO pyromq.cli {what} done=2 percent=100 of=2" in last, done.output
            assert "percent" not in one.run(*words, "--json", *([] if "export" in words else ["--yes"])).stdout
