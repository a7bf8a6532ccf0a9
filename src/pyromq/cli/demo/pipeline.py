"""The last act: a Spark pipeline over the messages that the demo sent, as a user would start it."""

from __future__ import annotations

import asyncio
import os
import sys

from ...errors import PyroError
from ...spark.session import check_machine
from .messages import GREETINGS, TOPIC
from .stage import Stage

_STARTING_S = 240.0  # Java, Spark and its workers on a small, busy machine


async def pipeline(stage: Stage) -> None:
    """`pyromq pipeline backlog` on the demo's topic."""
    try:
        check_machine()
    except PyroError as missing:
        stage.say(f"no Spark pipeline: {missing}")
        return
    stage.say(f"pyromq pipeline backlog --topic {TOPIC}: Spark counts the messages (it takes some seconds to start)")
    command = (sys.executable, "-m", "pyromq", "pipeline", "backlog", "-n", stage.namesrv, "--topic", TOPIC)
    process = await asyncio.create_subprocess_exec(
        *(*command, "--memory", "1g", "--master", "local[2]"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "COLUMNS": str(stage.console.width)},
    )
    try:
        async with stage.clock.timeout(_STARTING_S):
            shown, complaints = await process.communicate()
    except TimeoutError:
        raise PyroError(f"the pipeline did not end within {_STARTING_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise PyroError(f"the pipeline ended with exit code {process.returncode}: {complaints.decode()[-2000:]}")
    if f"messages {len(GREETINGS)}" not in shown.decode():
        raise PyroError(f"the pipeline did not find the {len(GREETINGS)} messages: {shown.decode()}")
    stage.console.print(shown.decode(), markup=False, highlight=False, soft_wrap=True, end="")
