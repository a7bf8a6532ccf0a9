"""Progress is shown where somebody looks."""

from __future__ import annotations

import io
import sys

import pytest

from pyromq.cli.terminal.printing import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "is_quiet", "drawn"),
    [(Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False)],
)
def test_a_bar(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, is_quiet: bool, drawn: bool) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(10, "copying", is_quiet) as done:
        done(4)
        done(6)
    assert ("copying" in stream.getvalue() and "10/10" in stream.getvalue()) is drawn
