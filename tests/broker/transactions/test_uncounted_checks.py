"""Checks that a producer could not answer: they do not count, for as long as messages are kept."""

from __future__ import annotations

from pathlib import Path

from pyromq.model.ids import offset_message_id
from pyromq.protocol.command import ONEWAY_FLAG, Command
from pyromq.protocol.record import Record
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Request
from tests.broker.transactions.test_transactions import COMMIT, GONE, HALF, end, register, send_half
from tests.broker.virtual import Virtual, virtual_broker


def say_unknown(life: Virtual, half: Record, **more: str) -> None:
    """As a producer answers a check: one-way."""
    fields = {
        "producerGroup": "P",
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(half.physical_offset),
        "commitOrRollback": "0",
        "fromTransactionCheck": "true",
        "msgId": "id",
    }
    command = Command(code=RequestCode.END_TRANSACTION, flag=ONEWAY_FLAG, fields=fields | more)
    assert life.broker.listeners.dispatchers["main"](Request(command, life.peer, life.clock.monotonic())) is None


async def test_checks_that_nobody_could_answer_do_not_count(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, file_reserved_hours=2) as life:
        producer = register(life)
        half = await send_half(life)
        for _ in range(40):
            await life.advance(30)
            say_unknown(life, half, uncounted="true")
        assert (len(producer.sent), life.broker.transactions.listing.undecided(9)[0].checks) == (40, 0)
        say_unknown(life, half, uncounted="true")
        assert life.broker.transactions.listing.undecided(9)[0].checks == 0, "never below"
        await life.advance(30)
        say_unknown(life, half, uncounted="true", producerGroup="Other")
        say_unknown(life, half)
        assert life.broker.transactions.listing.undecided(9)[0].checks == 1, "Java's unknown counts, as in Java"


async def test_what_is_as_old_as_the_log_is_given_up_and_asked_about_once_more_when_told(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, file_reserved_hours=2) as life:
        producer = register(life)
        half = await send_half(life)
        while not life.stored(GONE):
            before = len(producer.sent)
            await life.advance(30)
            say_unknown(life, half, uncounted="true")
            assert life.clock.now_ms() - half.born_timestamp < 3 * 3600_000
        assert len(producer.sent) == before
        (gone,) = life.stored(GONE)
        assert (
            await life.call(
                RequestCode.RESUME_CHECK_HALF_MESSAGE, msgId=offset_message_id(gone.store_host, gone.physical_offset)
            )
        ).code == 0
        await life.advance(30)
        assert len(producer.sent) == before + 1
        assert (await end(life, life.stored(HALF)[1], COMMIT, fromTransactionCheck=True)).code == 0
        assert life.bodies("T") == ["k"]
