"""`pyromq bench batch` and `transaction`: Apache's BatchProducer and TransactionProducer, their flags and columns."""

from __future__ import annotations

from typing import Any

import click

from ...client.received import Received  # at the top: the SDK reads the types of handlers
from ..terminal.options import Number
from ..terminal.shell import Shell, talks
from ..terminal.tree import command
from .counts import BatchesSent, TransactionsSent
from .shared import (
    BenchMessage,
    conclude,
    interval_option,
    java_truth,
    quantity_option,
    run_senders,
    topic_option,
    trace_option,
)


@command("pyromq bench batch -w 16 -s 1024 -b 32 -q 100000", "pyromq bench batch -t orders -ri 1000")
@topic_option
@click.option("-w", "--thread-count", "threads", type=click.IntRange(min=1), default=64, help="Senders.  [default: 64]")
@click.option("-s", "--message-size", "size", type=click.IntRange(min=1), default=128, help="Bytes.  [default: 128]")
@click.option("-b", "--batch-size", type=click.IntRange(min=1), default=16, help="Messages a batch.  [default: 16]")
@click.option("-p", "--property-size", type=click.IntRange(min=0), default=0, help="Bytes of properties.")
@click.option("-l", "--tag-count", "tags", type=click.IntRange(min=0), default=0, help="So many different tags.")
@quantity_option
@trace_option
@interval_option
@talks
async def batch(
    shell: Shell,
    topic: str,
    threads: int,
    batch_size: int,
    quantity: int,
    trace: bool,
    report_interval: int,
    **how: Any,
) -> None:
    """Send batches until Ctrl-C, or -q messages. TPS counts batches, MPS messages."""
    shell.say(
        f"topic: {topic}, threadCount: {threads}, messageSize: {how['size']}, batchSize: {batch_size}, "
        f"keyEnable: false, propertySize: {how['property_size']}, tagCount: {how['tags']}, "
        f"traceEnable: {java_truth(trace)}, reportInterval: {report_interval}"
    )
    clock = shell.session.clock
    message = BenchMessage(how | {"keys": False, "delays": False, "delay_level": 1})
    counts = BatchesSent(clock.monotonic(), batch_size)
    bodies = [message.body] * batch_size
    async with shell.client(trace=trace) as client, client.producer("benchmark_batch_producer") as sender:
        await run_senders(
            shell,
            counts,
            threads,
            lambda: sender.send_many(topic, bodies, **message.arguments(clock.now_ms())),
            quantity,
            report_interval,
            batch_size,
        )
    conclude(shell, counts)


_share = Number(0, 1)


@command("pyromq bench transaction -w 16 -s 1024 -q 10000", "pyromq bench transaction -sr 0.1 -su 0.1 -cr 0.5 -q 1000")
@topic_option
@click.option("-w", "--thread-count", "threads", type=click.IntRange(min=1), default=32, help="Senders.  [default: 32]")
@click.option("-s", "--message-size", "size", type=click.IntRange(min=1), default=2048, help="Bytes.  [default: 2048]")
@click.option("-sr", "--send-rollback-rate", "rolled", type=_share, default=0.0, help="Share that is rolled back.")
@click.option("-su", "--send-unknown-rate", "unknown", type=_share, default=0.0, help="Share that is left open.")
@click.option("-cr", "--check-rollback-rate", "check_rolled", type=_share, default=0.0, help="The same by checks.")
@click.option("-cu", "--check-unknown-rate", "check_unknown", type=_share, default=0.0, help="Left open by checks.")
@quantity_option
@trace_option
@interval_option
@talks
async def transaction(
    shell: Shell, topic: str, threads: int, size: int, quantity: int, trace: bool, report_interval: int, **shares: float
) -> None:
    """Send transactions until Ctrl-C, or -q of them; brokers ask about those that are left open while it runs."""
    clock, rng = shell.session.clock, shell.session.rng
    counts = TransactionsSent(clock.monotonic())
    body = (b"0123456789abcdefghijklmnopqrstuvwxyz" * (size // 36 + 1))[:size]

    def answer(msg: Received) -> bool | None:
        counts.checked(msg.id)
        if rng.random() < shares["check_rolled"]:
            return False
        return None if rng.random() < shares["check_unknown"] else True

    async with shell.client(trace=trace) as client, client.producer("benchmark_transaction_producer") as sender:
        sender.transaction_check(topic, answer)

        async def send() -> None:
            async with sender.transaction(topic, body) as tx:
                if rng.random() < shares["rolled"]:
                    tx.rollback()
                elif rng.random() < shares["unknown"]:
                    tx.leave_open()
                    counts.open_ids.add(tx.message_id)

        await run_senders(shell, counts, threads, send, quantity, report_interval)
    conclude(shell, counts)
