"""What an operator sees of it afterwards: lag, the life of one message, the trace of another. By the commands."""

from __future__ import annotations

from ...errors import PyroError
from .run import DemoRun


async def inspection(run: DemoRun) -> None:
    for words, expected in (
        (["group", "lag", "readers", "greetings"], "readers"),
        (["msg", "get", "alarms", run.message_ids["alarms"]], "sleepers"),
        (["msg", "trace", run.message_ids["greetings"]], "readers"),
    ):
        run.say(f"pyromq {' '.join(words)}")
        async with run.patience(f"pyromq {' '.join(words)} to tell of {expected}"):
            while expected not in (printed := await _printed(run, words)):
                await run.clock.sleep(0.5)  # traces are written in the background
        run.show(printed)


async def _printed(run: DemoRun, words: list[str]) -> str:
    try:
        return await run.command(*words)
    except PyroError as not_yet:
        return str(not_yet)
