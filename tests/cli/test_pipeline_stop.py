"""Signals while a job runs: it is asked to end, and nothing is raised within it."""

from __future__ import annotations

import os
import signal
from threading import Event

import pytest

from pyromq.cli.pipeline.stop import run_stoppable
from pyromq.pipelines.run import streaming
from pyromq.pipelines.run.streaming import Stop, Stopped

LONG_S = 60


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_the_job_to_end_and_cancels_until_it_has(number: signal.Signals) -> None:
    cancelled, before = Event(), signal.getsignal(number)

    def work(stop: Stop) -> None:
        assert streaming.current() is stop
        os.kill(os.getpid(), number)
        assert stop.wait(LONG_S)
        assert cancelled.wait(LONG_S)
        raise Stopped("stopped")

    with pytest.raises(Stopped):
        run_stoppable(work, cancelled.set)
    assert signal.getsignal(number) is before


def test_a_stream_ends_itself_and_its_summary_is_not_cancelled() -> None:
    cancelled: list[int] = []

    def work(stop: Stop) -> None:
        stop.ends_itself = True
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(LONG_S)

    run_stoppable(work, lambda: cancelled.append(1))
    assert cancelled == []


def test_a_second_signal_ends_the_command() -> None:
    never = Event()

    def work(stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(LONG_S)
        os.kill(os.getpid(), signal.SIGINT)
        never.wait(LONG_S)

    try:
        with pytest.raises(KeyboardInterrupt):
            run_stoppable(work, lambda: None)
    finally:
        never.set()


def test_an_error_of_the_job_is_the_commands() -> None:
    def work(stop: Stop) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_stoppable(work, lambda: None)
    assert not streaming.current().asked.is_set()
