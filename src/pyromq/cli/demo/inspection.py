"""What an operator sees of it afterwards: lag, the life of one message, the trace of another. By the commands."""

from __future__ import annotations

from ...errors import PyroError
from .run import Stage


async def looking(stage: Stage) -> None:
    for words, expected in (
        (["group", "lag", "readers", "greetings"], "readers"),
        (["msg", "get", "alarms", stage.message_ids["alarms"]], "sleepers"),
        (["msg", "trace", stage.message_ids["greetings"]], "readers"),
    ):
        stage.say(f"pyromq {' '.join(words)}")
        async with stage.patience(f"pyromq {' '.join(words)} to tell of {expected}"):
            while expected not in (printed := await _printed(stage, words)):
                await stage.clock.sleep(0.5)  # traces are written in the background
        stage.show(printed)


async def _printed(stage: Stage, words: list[str]) -> str:
    try:
        return await stage.command(*words)
    except PyroError as not_yet:
        return str(not_yet)
