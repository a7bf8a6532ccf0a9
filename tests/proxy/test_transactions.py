"""EndTransaction, and orphans that the broker asks about over telemetry."""

from __future__ import annotations

from pathlib import Path

from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code, MessageType, TransactionResolution, TransactionSource
from tests.proxy.calling import Endpoint, endpoint, message

COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK
CHECKS = {"transaction_check_interval": 5_000, "transaction_time_out": 2_000}


async def half(grpc: Endpoint, topic: str = "X", body: bytes = b"half") -> str:
    sent = message(topic, body, message_type=MessageType.TRANSACTION)
    answer = await grpc.ask("SendMessage", v2.SendMessageRequest(messages=[sent]))
    assert answer.status.code == Code.OK
    return str(answer.entries[0].transaction_id)


async def end(grpc: Endpoint, id_: str, how: int, topic: str = "X", source: int = 1) -> tuple[int, str]:
    request = v2.EndTransactionRequest(
        topic=v2.Resource(name=topic), message_id=id_, transaction_id=id_, resolution=how, source=source
    )
    status = (await grpc.ask("EndTransaction", request)).status
    return status.code, status.message


async def test_commit_and_rollback(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("X", "TRANSACTION", queues=1)
        kept, dropped = await half(grpc, body=b"kept"), await half(grpc, body=b"dropped")
        assert grpc.virtual.bodies("X") == []
        assert (await end(grpc, kept, COMMIT))[0] == Code.OK
        assert (await end(grpc, dropped, ROLLBACK))[0] == Code.OK
        assert grpc.virtual.bodies("X") == ["kept"]
        again = await end(grpc, kept, COMMIT)
        assert again[0] == Code.INTERNAL_SERVER_ERROR
        assert again[1].endswith("cannot found transaction data")
        assert grpc.virtual.bodies("X") == ["kept"]


async def test_ids_that_are_none(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("X", "TRANSACTION")
        grpc.topic("Y", "TRANSACTION")
        assert await end(grpc, "", COMMIT) == (40008, "transaction id cannot be empty")
        assert (await end(grpc, "unknown", COMMIT))[1].endswith("cannot found transaction data")
        id_ = await half(grpc)
        assert (await end(grpc, id_, COMMIT, topic="Y"))[1].endswith("cannot found transaction data")
        assert await end(grpc, id_, TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED) == (Code.OK, "OK")


async def test_a_transaction_of_long_ago_is_found_at_its_broker(tmp_path: Path) -> None:
    async with endpoint(tmp_path, transaction_check_interval=3_600_000) as grpc:
        grpc.topic("X", "TRANSACTION", queues=1)
        id_ = await half(grpc)
        await grpc.clock.advance(600)
        await half(grpc)  # makes room: what is older than 30 s is not remembered
        assert len(grpc.services.transactions) == 1
        assert (await end(grpc, id_, COMMIT))[0] == Code.OK
        assert grpc.virtual.bodies("X") == ["half"]


async def test_an_orphan_is_asked_about_and_ended(tmp_path: Path) -> None:
    async with endpoint(tmp_path, **CHECKS) as grpc:
        grpc.topic("X", "TRANSACTION", queues=1)
        stream = await grpc.producer("X")
        id_ = await half(grpc, body=b"orphan")
        await grpc.clock.advance(6)
        command = (await stream.heard()).recover_orphaned_transaction_command
        assert command.transaction_id == id_
        assert command.message.topic.name == "X"
        assert command.message.body == b"orphan"
        system = command.message.system_properties
        assert (system.message_id, system.delivery_attempt, system.message_type) == (id_, 1, MessageType.TRANSACTION)
        assert not system.HasField("receipt_handle")
        assert (await end(grpc, id_, COMMIT, source=TransactionSource.SOURCE_SERVER_CHECK))[0] == Code.OK
        assert grpc.virtual.bodies("X") == ["orphan"]


async def test_another_producer_of_the_topic_is_asked(tmp_path: Path) -> None:
    async with endpoint(tmp_path, **CHECKS) as grpc:
        grpc.topic("X", "TRANSACTION", queues=1)
        gone = await grpc.producer("X")
        await half(grpc)
        await gone.cancel()
        other = await grpc.producer("X", client="client-2")
        await grpc.clock.advance(6)
        assert (await other.heard()).HasField("recover_orphaned_transaction_command")
