"""Each change is in the queues exactly once, whichever step of the capture is the one at which something dies.

Steps are the operations at the seams: the state and the history written, each batch sent, stored and acknowledged, the
log and the rows read. A sweep kills the capture before and behind each of them, or has the broker or the database go
away there; then a capture that has nothing but the files goes on. The broker is a real one with its duplicate window.
All steps by hand (`pytest -m slow tests/cdc/test_every_step.py`), each ninth of them in every run.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyromq import admin
from pyromq.admin.calls import Calls
from pyromq.cdc.schema.history import SchemaHistory
from pyromq.cdc.state import StateFile
from pyromq.client.client import Client
from tests.cdc.synthetic import EVENTS, LOG, SNAPSHOT_ROWS, Seams, Synthetic, numbers_of
from tests.client.world import World

KILL = "kill at file, broker, database"
LEAST_STEPS = {KILL: 80, "broker": 30, "database": 10}


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 9], ids=["each", "each ninth"])
@pytest.mark.parametrize("how", [KILL, "broker", "database"])
async def test_a_fault_at_each_step_leaves_each_change_stored_once(how: str, every: int, tmp_path: Path) -> None:
    world = World(tmp_path / "world", duplicate_window_enable=True, auto_create_topic_enable=True)
    await world.start_name_server()
    await world.start_broker()
    try:
        async with world.client() as client:
            step = 1
            while True:
                seams = Seams(how, fails_at=step)
                capture = Synthetic(tmp_path / str(step), client, f"s{step}")
                is_whole = await capture.run(seams)
                while not is_whole:
                    is_whole = await capture.run(Seams())
                await check(client, capture, f"step {step}: {seams.names[-1]}")
                if seams.done < step:
                    break
                step += every
            assert step > LEAST_STEPS[how], "the sweep has met fewer steps than there are"
    finally:
        await world.close()


async def check(client: Client, capture: Synthetic, what: str) -> None:
    """Everything that the log has is in the topics, once and in order."""
    found: list[tuple[bytes, dict[str, str]]] = []
    for table in ("orders", "items"):
        for queue in await messages(client, f"{capture.prefix}-shop-{table}"):
            keys: dict[str, int] = {}
            for _, properties in queue:
                number = int(properties["cdcNumber"])
                assert number > keys.get(properties["cdcKey"], -1), f"{what}: out of order"
                keys[properties["cdcKey"]] = number
            found += queue
    assert len(found) == EVENTS, f"{what}: {len(found)} events"
    seen = Counter(each["cdcOp"] for _, each in found)
    assert seen["r"] == SNAPSHOT_ROWS, what
    assert Counter(body for body, each in found if each["cdcOp"] != "tombstone").most_common(1)[0][1] == 1, what
    boundaries = [each for queue in await messages(client, f"{capture.prefix}-transaction") for each in queue]
    told = [(body["status"], body["id"]) for body in (json.loads(body) for body, _ in boundaries)]
    assert told == [(status, str(n)) for n in range(1, len(LOG) + 1) for status in ("BEGIN", "END")], what
    numbers = [*numbers_of([each for _, each in found]), *numbers_of([each for _, each in boundaries])]
    assert sorted(numbers) == list(range(len(numbers))), f"{what}: numbers are missing, or there twice"
    blocks = [json.loads(body).get("transaction") for body, _ in found if body != b"null"]
    places = Counter((each["id"], each["total_order"]) for each in blocks if each)
    assert set(places.values()) == {1}, what
    state = StateFile(capture.folder, "synthetic").load()
    history = SchemaHistory(capture.folder).load(state.lines_noted)
    assert [one.words for each in history.changes for one in each.changes] == ["more added (text)"], what


async def messages(client: Client, topic: str) -> list[list[tuple[bytes, dict[str, str]]]]:
    """Return what each queue of a topic has."""
    calls, queues = Calls(client.session), []
    for queue in (await client.session.route(topic)).readable:
        address = await client.session.master(queue)
        end = await admin.offsets.end(calls, address, topic, queue.queue_id)
        pages: Any = admin.messages.pages(calls, address, topic, queue.queue_id, 0, end)
        queues.append([(each.body, dict(each.properties)) async for page in pages for each in page.messages])
    return queues
