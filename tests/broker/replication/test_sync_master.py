"""A SYNC_MASTER's answers: confirmed, late, without slaves, refused; by either kernel, whatever was sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.replication.settings import BrokerRole
from pyromq.model.codes import ResponseCode
from pyromq.model.message import SysFlag
from pyromq.protocol.json import ANSWER_LIMITS
from pyromq.protocol.replication.classic import ChunkReader, encode_report
from pyromq.protocol.requests import RequestCode
from pyromq.store.config import FlushMode
from tests.broker.running import Running, running_broker, turns_until

SYNC: dict[str, Any] = {"broker_role": BrokerRole.SYNC_MASTER, "slave_timeout": 300}
HALF = {"TRAN_MSG": "true", "PGROUP": "P"}


class FakeSlave:
    """Follows over a socket, and reports what it received unless told not to."""

    def __init__(self, running: Running) -> None:
        listening = running.broker.listeners.ports.ha
        assert listening is not None
        self.host, port = listening.address.rsplit(":", 1)
        self.port = int(port)
        self.end, self.reports = running.broker.store.commit_log.end, True
        self.copies = running.broker.copies

    async def __aenter__(self) -> FakeSlave:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        self.writer.write(encode_report(self.end))
        self.task = asyncio.create_task(self._follow())
        await turns_until(lambda: not self.copies.standing.is_short)
        return self

    async def _follow(self) -> None:
        chunks = ChunkReader()
        while data := await self.reader.read(1 << 16):
            for chunk in chunks.receive(data):
                self.end = chunk.position + len(chunk.data)
            if self.reports:
                self.writer.write(encode_report(self.end))

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        self.writer.close()
        await asyncio.gather(self.task, return_exceptions=True)


async def all_kinds(running: Running) -> dict[str, int]:
    """The codes of sends of every kind, at the same time."""
    sends = {
        "plain": running.send(),
        "delayed": running.send(properties={"DELAY": "3"}),
        "half": running.send(properties=HALF, sysFlag=int(SysFlag.TRANSACTION_PREPARED)),
        "batch": running.send_batch([b"one", b"two"]),
        "no wait": running.send(properties={"WAIT": "false"}),
    }
    answers = await asyncio.gather(*sends.values())
    return {kind: answer.code for kind, answer in zip(sends, answers, strict=True)}


@pytest.mark.parametrize("flush_mode", FlushMode)
async def test_sends_are_answered_once_a_slave_has_them(tmp_path: Path, flush_mode: FlushMode) -> None:
    async with running_broker(tmp_path, **SYNC, flush_mode=flush_mode) as running:
        await running.send(properties={"WAIT": "false"})  # makes the topic
        async with FakeSlave(running) as slave:
            assert set((await all_kinds(running)).values()) == {ResponseCode.SUCCESS}
            assert slave.end == running.broker.store.commit_log.end == running.broker.store.readable.value


async def test_a_slave_that_does_not_report_makes_them_late_and_they_are_readable_then(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SYNC) as running:
        await running.send(properties={"WAIT": "false"})  # makes the topic
        async with FakeSlave(running) as slave:
            slave.reports = False
            before = running.broker.store.readable.value
            sending = asyncio.create_task(all_kinds(running))
            await running.broker.store.appended.reached(before + 1)
            assert running.broker.store.readable.value == before
            codes = await sending
            assert codes.pop("no wait") == ResponseCode.SUCCESS
            assert set(codes.values()) == {ResponseCode.FLUSH_SLAVE_TIMEOUT}
            assert running.broker.store.readable.value == running.broker.store.commit_log.end


async def test_without_slaves_the_answer_says_so_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SYNC | {"slave_timeout": 60_000}) as running:
        await running.send(properties={"WAIT": "false"})  # makes the topic
        codes = await all_kinds(running)
        assert codes.pop("no wait") == ResponseCode.SUCCESS
        assert set(codes.values()) == {ResponseCode.SLAVE_NOT_AVAILABLE}
        assert running.broker.store.readable.value == running.broker.store.commit_log.end


async def test_fewer_copies_are_asked_for_while_slaves_are_away(tmp_path: Path) -> None:
    auto = SYNC | {"slave_timeout": 300, "enable_auto_in_sync_replicas": True}
    async with running_broker(tmp_path, **auto) as running:
        await running.send(properties={"WAIT": "false"})  # makes the topic
        assert set((await all_kinds(running)).values()) == {ResponseCode.SUCCESS}
        async with FakeSlave(running) as slave:
            await turns_until(lambda: running.broker.copies.standing.needed == 1)
            assert (await running.send()).code == ResponseCode.SUCCESS
            slave.reports = False
            assert (await running.send()).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        await turns_until(lambda: running.broker.copies.standing.needed == 0)
        assert (await running.send()).code == ResponseCode.SUCCESS


async def test_what_waits_is_answered_when_the_slave_goes(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SYNC | {"slave_timeout": 60_000}) as running:
        await running.send(properties={"WAIT": "false"})  # makes the topic
        async with FakeSlave(running) as slave:
            slave.reports = False
            appended = running.broker.store.appended
            sending = asyncio.create_task(running.send())
            await appended.reached(appended.value + 1)
        assert (await sending).code == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_below_the_minimum_nothing_is_stored(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SYNC, min_in_sync_replicas=2) as running:
        end = running.broker.store.commit_log.end
        refused = await running.send()
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
        assert running.broker.store.commit_log.end == end
        assert running.broker.replicating.trouble() == (
            "0 of 1 slaves are in sync (minInSyncReplicas): sends are refused"
        )
        async with FakeSlave(running):
            assert (await running.send()).code == ResponseCode.SUCCESS
            assert running.broker.replicating.trouble() is None
            figures = running.broker.replicating.figures()
            assert figures == {"pyromqSlaves": "1", "pyromqSlavesInSync": "1", "pyromqSlavesBehind": "0"}


async def test_one_copy_is_enough_where_that_is_said(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SYNC, in_sync_replicas=1) as running:
        await running.send(properties={"WAIT": "false"})  # makes the topic
        assert set((await all_kinds(running)).values()) == {ResponseCode.SUCCESS}


async def test_a_pull_beyond_what_is_readable_is_held_and_not_sent_back(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SYNC | {"slave_timeout": 60_000}) as running:
        await running.send(properties={"WAIT": "false"})  # makes the topic
        async with FakeSlave(running) as slave:
            slave.reports = False
            sending = [asyncio.create_task(running.send(body=b"%d" % number)) for number in range(3)]
            queue = running.broker.store.queues.get("T", 0)
            assert queue is not None
            await turns_until(lambda: queue.next_offset == 4)
            assert queue.readable_end == 1
            pulls = [
                asyncio.create_task(running.pull(offset=offset, sysFlag=6, suspendTimeoutMillis=30_000))
                for offset in (2, 3)
            ]
            await turns_until(lambda: len(running.broker.pulls.suspended) == 2)
            slave.writer.write(encode_report(slave.end))
            assert {pull.code for pull in await asyncio.gather(*pulls)} == {ResponseCode.SUCCESS}
            assert {sent.code for sent in await asyncio.gather(*sending)} == {ResponseCode.SUCCESS}


async def test_tools_are_shown_each_slave_as_java_shows_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SYNC) as running:
        await running.send(properties={"WAIT": "false"})
        async with FakeSlave(running) as slave:
            await running.send()
            end = running.broker.store.commit_log.end
            shown = RequestCode.GET_BROKER_HA_STATUS.gives.read_body(
                (await running.call(RequestCode.GET_BROKER_HA_STATUS)).body, ANSWER_LIMITS
            )
            (row,) = shown.ha_connection_info
            assert (shown.master, shown.in_sync_slave_nums, shown.master_commit_log_max_offset) == (True, 1, end)
            assert row.addr == "{}:{}".format(*slave.writer.get_extra_info("sockname"))
            assert (row.slave_ack_offset, row.transfer_from_where, row.diff, row.in_sync) == (end, end, 0, True)
        asked = await running.call(RequestCode.EXCHANGE_BROKER_HA_INFO)
        assert asked.fields["masterHaAddress"] == f"{slave.host}:{slave.port}"
        assert asked.fields["masterAddress"] == running.address
        told = await running.call(RequestCode.EXCHANGE_BROKER_HA_INFO, masterHaAddress="10.0.0.9:10912")
        assert told.code == ResponseCode.SYSTEM_ERROR
        assert "haMasterAddress" in (told.remark or "")
        assert (await running.call(RequestCode.RESET_MASTER_FLUSH_OFFSET, masterFlushOffset=7)).code == 0
