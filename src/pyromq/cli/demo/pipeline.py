"""The last act: a Spark pipeline over the messages that the demo sent, as a user would start it."""

from __future__ import annotations

import os

from ...errors import PyroError
from ...spark.session import check_machine
from .kinds import GREETINGS
from .run import DemoRun

TOPICS = "greetings,steps,parcels,payments,tasks,alarms"
# As kinds.py sends them, less what was rolled back or recalled.
WANTED = f"messages {len(GREETINGS) + 8 + 6 + 2 + 2 + 2}"


async def pipeline(run: DemoRun) -> None:
    try:
        check_machine()
    except PyroError as missing:
        run.say(f"no Spark pipeline: {missing}")
        return
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    words = ("pipeline", "backlog", "--topic", TOPICS)
    run.say(f"pyromq {' '.join(words)}: Spark counts the messages (it takes some seconds to start)")
    with run.busy("Spark"):
        printed = await run.command(*words, "-n", run.namesrv, "--memory", "1g", "--master", "local[2]")
    if WANTED not in printed:
        raise PyroError(f"the pipeline was to find {WANTED}: {printed}")
    run.show(printed)
