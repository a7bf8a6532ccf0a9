"""`pyromq bench batch` and `transaction`: Apache's BatchProducer and TransactionProducer, their flags and columns."""

from __future__ import annotations

import click

from ...client.received import Received  # at the top: the SDK reads the types of handlers
from ..terminal.options import Number
from ..terminal.tree import command
from . import shared
from .counts import BatchesSent, TransactionsSent
from .shared import BenchMessage, BenchRun, count_option, java_truth, measures


@command("pyromq bench batch -w 16 -s 1024 -b 32 -q 100000", "pyromq bench batch -t orders -ri 1000")
@shared.topic_option
@count_option("-w", "--thread-count", "threads", default=64, text="Senders.  [default: 64]")
@count_option("-s", "--message-size", "size", default=128, text="Bytes.  [default: 128]")
@count_option("-b", "--batch-size", default=16, text="Messages a batch.  [default: 16]")
@shared.properties_option
@shared.tags_option
@shared.quantity_option
@shared.trace_option
@shared.interval_option
@measures
async def batch(
    run: BenchRun, threads: int, batch_size: int, size: int, property_size: int, tags: int, trace: bool
) -> None:
    """Send batches until Ctrl-C, or -q messages. TPS counts batches, MPS messages."""
    run.shell.say(
        f"topic: {run.topic}, threadCount: {threads}, messageSize: {size}, batchSize: {batch_size}, "
        f"keyEnable: false, propertySize: {property_size}, tagCount: {tags}, "
        f"traceEnable: {java_truth(trace)}, reportInterval: {run.interval_ms}"
    )
    message = BenchMessage(size, property_size, tags)
    counts = BatchesSent(run.clock.monotonic(), batch_size)
    bodies = [message.body] * batch_size
    async with run.shell.client(trace=trace) as client, client.producer("benchmark_batch_producer") as sender:

        async def send() -> None:
            await sender.send_many(run.topic, bodies, **message.arguments(run.clock.now_ms()))

        await run.send(counts, threads, send, batch_size)
    run.conclude(counts)


_share = Number(0, 1)


@command("pyromq bench transaction -w 16 -s 1024 -q 10000", "pyromq bench transaction -sr 0.1 -su 0.1 -cr 0.5 -q 1000")
@shared.topic_option
@count_option("-w", "--thread-count", "threads", default=32, text="Senders.  [default: 32]")
@count_option("-s", "--message-size", "size", default=2048, text="Bytes.  [default: 2048]")
@click.option("-sr", "--send-rollback-rate", "rolled", type=_share, default=0.0, help="Share that is rolled back.")
@click.option("-su", "--send-unknown-rate", "unknown", type=_share, default=0.0, help="Share that is left open.")
@click.option("-cr", "--check-rollback-rate", "check_rolled", type=_share, default=0.0, help="The same by checks.")
@click.option("-cu", "--check-unknown-rate", "check_unknown", type=_share, default=0.0, help="Left open by checks.")
@shared.quantity_option
@shared.trace_option
@shared.interval_option
@measures
async def transaction(run: BenchRun, threads: int, size: int, trace: bool, **shares: float) -> None:
    """Send transactions until Ctrl-C, or -q of them; brokers ask about those that are left open while it runs."""
    rng = run.shell.session.rng
    counts = TransactionsSent(run.clock.monotonic())
    body = BenchMessage(size).body

    def answer(msg: Received) -> bool | None:
        counts.checked(msg.id)
        if rng.random() < shares["check_rolled"]:
            return False
        return None if rng.random() < shares["check_unknown"] else True

    async with run.shell.client(trace=trace) as client, client.producer("benchmark_transaction_producer") as sender:
        sender.transaction_check(run.topic, answer)

        async def send() -> None:
            async with sender.transaction(run.topic, body) as tx:
                if rng.random() < shares["rolled"]:
                    tx.rollback()
                elif rng.random() < shares["unknown"]:
                    tx.leave_open()
                    counts.open_ids.add(tx.message_id)

        await run.send(counts, threads, send)
    run.conclude(counts)
