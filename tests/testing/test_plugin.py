"""The pytest plugin as its users see it: hours pass at once, chains unfold, nothing is lost over restarts and kills."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pyromq import testing
from pyromq.client.client import connect
from pyromq.client.core.retry import Reject
from pyromq.client.errors import Error, NoBroker, Refused
from pyromq.client.produce.sending import SendPolicy
from pyromq.client.produce.transaction_table import TransactionTable
from pyromq.client.received import Received
from pyromq.client.subscription import tag
from pyromq.middleware.idempotence import Idempotence, SeenInMemory
from pyromq.model.codes import ResponseCode
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.requests import RequestCode
from pyromq.testing.broker import RmqBroker
from pyromq.testing.client import NothingCame, RmqClient
from pyromq.testing.faults import SENDS
from pyromq.text.extras import install_command

pytest_plugins = ("pytester",)
FIRST = ConsumeFromWhere.FIRST_OFFSET


async def test_a_message_is_received_once(rmq_client: RmqClient) -> None:
    sent = await rmq_client.send("T", b"hello", tag="a", keys=["k"])
    got = await rmq_client.receive_one("T", group="g")
    assert (got.body, got.id, got.tag, got.keys) == (b"hello", sent.message_id, "a", ["k"])
    await rmq_client.expect_nothing("T", group="g")
    assert (await rmq_client.receive_one("T", group="another")).body == b"hello"


async def test_nothing_comes_and_that_is_told(rmq_client: RmqClient) -> None:
    with pytest.raises(NothingCame, match="group 'g' got no message of 'T' within 0 s; the topic holds 0"):
        await rmq_client.receive_one("T", group="g", wait_s=0)
    await rmq_client.send("T", b"x")
    with pytest.raises(AssertionError, match=r"group 'g' got .*b'x'"):
        await rmq_client.expect_nothing("T", group="g")


async def test_poll_while_the_clock_stands(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_broker.create_topic("T", 4)
    async with rmq_client.client.pull_consumer("g") as consumer:
        await consumer.assign(await consumer.queues("T"))
        assert await consumer.poll(timeout=0) == []
        waiting = asyncio.create_task(consumer.poll(timeout=5))
        await rmq_broker.clock.advance(4.9)
        assert not waiting.done()
        await rmq_broker.clock.advance(0.1)
        assert await waiting == []
        await rmq_client.send("T", b"hello")
        assert [msg.body for msg in await consumer.poll(timeout=0)] == [b"hello"]
        assert await consumer.poll(timeout=0) == []
        waiting = asyncio.create_task(consumer.poll(timeout=5))
        await rmq_client.send("T", b"again")
        assert [msg.body for msg in await waiting] == [b"again"]
        await rmq_broker.clock.advance(5)  # what was polled is committed
        assert await consumer.poll(timeout=0) == []
    assert rmq_broker.lag("T", "g") == 0


async def test_a_filter(rmq_client: RmqClient) -> None:
    for name in ("a", "b"):
        await rmq_client.send("T", name, tag=name)
    assert (await rmq_client.receive_one("T", group="g", filter=tag("b"))).body == b"b"
    await rmq_client.expect_nothing("T", group="g", filter=tag("b"))


async def test_retries_unfold_deadline_by_deadline(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    """10 s, 30 s, 1 min ... 2 h: 16 retries in less than 5 hours, then the dead letters."""
    attempts: list[tuple[int, int]] = []

    async def fail(msg: Received) -> None:
        attempts.append((msg.attempt, (rmq_broker.clock.now_ms() - msg.born_ms) // 1000))
        raise ValueError("again")

    await rmq_client.send("T", b"x")
    async with rmq_client.client.push_consumer("T", fail, group="g", begin=FIRST):
        await rmq_broker.settle()
        await rmq_broker.clock.advance(40)
        assert attempts == [(1, 0), (2, 10), (3, 40)]
        await rmq_broker.clock.advance(hours=5)
    assert [number for number, _ in attempts] == list(range(1, 18))
    assert [message.body for message in rmq_broker.messages("%DLQ%g")] == [b"x"]
    assert rmq_broker.lag("T", "g") == 0


async def test_a_rejected_message_is_dead_at_once(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    async def reject(msg: Received) -> None:
        raise Reject

    await rmq_client.send("T", b"x")
    async with rmq_client.client.push_consumer("T", reject, group="g", begin=FIRST):
        await rmq_broker.settle()
        assert len(rmq_broker.messages("%DLQ%g")) == 1
    assert "g" in rmq_broker.groups
    assert "T" in rmq_broker.topics


async def test_a_handler_that_takes_real_time_is_waited_for(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    done: list[bytes] = []

    async def slow(msg: Received) -> None:
        await asyncio.sleep(0.05)
        done.append(msg.body)

    await rmq_broker.create_topic("T")
    async with rmq_client.client.push_consumer("T", slow, group="g", begin=FIRST):
        await rmq_client.send("T", b"x")
        await rmq_broker.settle()
        assert done == [b"x"]


async def test_transactions_are_checked_when_their_time_has_come(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    rmq_client.producer.transaction_check("T", lambda msg: True)
    async with rmq_client.producer.transaction("T", b"half") as transaction:
        transaction.leave_open()
    await rmq_client.expect_nothing("T")
    await rmq_broker.clock.advance(minutes=1)
    assert (await rmq_client.receive_one("T")).body == b"half"


OF_MODULE = SeenInMemory(keep_s=60)  # made before any broker, as an app's module does


async def test_a_transaction_table_is_patient_on_the_clock_of_the_test(
    rmq_broker: RmqBroker, rmq_client: RmqClient, tmp_path: Path
) -> None:
    table = TransactionTable(lambda: sqlite3.connect(tmp_path / "shop.db"))
    table.create()
    rmq_client.producer.transaction_check("T", table)
    for value in ("noted late", "never noted"):
        async with rmq_client.producer.transaction("T", value) as transaction:
            transaction.leave_open()
        if value == "noted late":
            late = transaction.message_id
    await rmq_broker.clock.advance(minutes=2)  # the table says: not known yet
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        table.note(database, late)
        database.commit()
    await rmq_broker.clock.advance(minutes=10)
    assert [one.body for one in rmq_broker.messages("T")] == [b"noted late"]
    assert rmq_broker.messages("TRANS_CHECK_MAX_TIME_TOPIC") == [], "rolled back, not given up"


async def test_what_was_seen_is_forgotten_by_the_clock_of_the_test(rmq_broker: RmqBroker) -> None:
    handled: list[bytes] = []
    client = await rmq_broker.client(middleware=[Idempotence(OF_MODULE, by="key")])
    await rmq_broker.create_topic("T")

    async def handle(msg: Received) -> None:
        handled.append(msg.body)

    async with client.producer() as producer, client.push_consumer("T", handle, group="g", begin=FIRST):
        for value in (b"1", b"repeated", b"2"):
            await producer.send("T", value, keys=["k"])
            await rmq_broker.settle()
            if value == b"repeated":
                await rmq_broker.clock.advance(minutes=10)
    assert handled == [b"1", b"2"]


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_what_was_sent_is_there_after(how: str, rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    for number in range(5):
        await rmq_client.send("T", str(number), order_key="k")
    await getattr(rmq_broker, how)()
    await rmq_client.send("T", "5", order_key="k")
    got = [(await rmq_client.receive_one("T")).body for _ in range(6)]
    assert sorted(got) == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_refusals_are_retried_or_raised(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    rmq_broker.faults.refuse(times=1, code=ResponseCode.SYSTEM_ERROR)
    await rmq_client.send("T", b"second try")
    rmq_broker.faults.refuse(code=ResponseCode.NO_PERMISSION, remark="not today")
    async with rmq_client.client.producer("once", policy=SendPolicy(retries=0)) as producer:
        with pytest.raises(Refused, match="not today"):
            await producer.send("T", b"x")
    rmq_broker.faults.clear()
    await rmq_client.send("T", b"fine")
    assert [message.body for message in rmq_broker.messages("T")] == [b"second try", b"fine"]


async def test_the_kernel_of_this_process_serves_unless_a_fault_is_active(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    def by_kernel() -> int:
        return sum(one.kernel.messages for one in rmq_broker.broker.verdicts)

    await rmq_broker.create_topic("T", queues=1)
    for number in range(3):
        await rmq_client.send("T", str(number))
    assert by_kernel() > 0
    before = by_kernel()
    rmq_broker.faults.refuse([RequestCode.HEART_BEAT])
    await rmq_client.send("T", "3")
    assert by_kernel() == before
    rmq_broker.faults.clear()
    await rmq_client.send("T", "4")
    assert by_kernel() > before
    assert [message.body for message in rmq_broker.messages("T")] == [b"0", b"1", b"2", b"3", b"4"]


async def test_delays_and_cut_connections(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("T", b"first")
    rmq_broker.faults.delay(2, SENDS, times=1)
    sending = asyncio.ensure_future(rmq_client.send("T", b"slow"))
    await rmq_broker.settle()
    assert not sending.done()
    await rmq_broker.clock.advance(2)
    await sending
    rmq_broker.faults.disconnect()
    await rmq_broker.settle()
    await rmq_client.send("T", b"again")
    assert len(rmq_broker.messages("T")) == 3


async def test_a_full_disk_refuses_sends_and_recovers(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    await rmq_client.send("T", b"before")
    await rmq_broker.faults.disk_full()
    sending = asyncio.ensure_future(rmq_client.send("T", b"lost?", timeout=1))
    await rmq_broker.clock.advance(2)
    with pytest.raises((Refused, NoBroker)):
        await sending
    assert (await rmq_client.receive_one("T")).body == b"before"
    await rmq_broker.faults.disk_full(False)
    await rmq_client.send("T", b"after")
    assert (await rmq_client.receive_one("T")).body == b"after"


@pytest.mark.rmq(message_delay_level="2s 4s", auto_create_topic_enable=False)
async def test_settings_by_a_marker(rmq_broker: RmqBroker) -> None:
    assert rmq_broker.broker.live.config.message_delay_level == "2s 4s"
    assert "TBW102" not in rmq_broker.topics


async def test_other_programs_reach_it_by_its_socket(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    async with connect(rmq_broker.namesrv) as outside, outside.producer() as producer:
        await producer.send("T", b"from outside")
    assert (await rmq_client.receive_one("T")).body == b"from outside"


def test_the_plugin_is_found_by_its_entry_point_and_its_own_tests_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_mail="""
        import pytest

        @pytest.mark.asyncio
        async def test_delay(rmq_broker, rmq_client):
            await rmq_client.send("mail", b"x", delay=3600)
            await rmq_client.expect_nothing("mail", group="t")
            await rmq_broker.clock.advance(hours=1)
            assert await rmq_client.receive_one("mail", group="t")
        """
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_the_examples_of_the_page_pass(pytester: pytest.Pytester) -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    pytester.makepyfile(**{f"test_{number}": example for number, example in enumerate(examples)})
    (settings,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    pytester.makepyprojecttoml(settings)
    result = pytester.runpytest_subprocess("-q")
    result.assert_outcomes(passed=3)
    assert "Deprecation" not in result.stderr.str() + result.stdout.str()


def test_without_pytest_asyncio_the_fixture_says_what_to_install(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (pytester.path / "pytest_asyncio.py").write_text("raise ImportError")
    pytester.makepyfile(test_it="def test_it(rmq_broker): pass")
    result = pytester.runpytest_subprocess("-q", "-p", "pyromq.testing.plugin")
    result.assert_outcomes(errors=1)
    assert f"rmq_broker needs pytest-asyncio: {install_command('testing')}" in result.stdout.str()


def test_a_mistyped_setting_is_named_with_what_it_is_like() -> None:
    with pytest.raises(TypeError, match="no setting 'mesage_delay_level': did you mean 'message_delay_level'"):
        RmqBroker(mesage_delay_level="1s")
    with pytest.raises(TypeError, match="no setting 'zzz': see docs"):
        RmqBroker(zzz=1)


async def test_a_mistyped_topic_is_no_empty_one(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    async def reject(msg: Received) -> None:
        raise Reject

    await rmq_client.send("orders", b"x")
    with pytest.raises(LookupError, match="there is no topic 'odrers': did you mean 'orders'"):
        rmq_broker.lag("odrers", "billing")
    with pytest.raises(LookupError, match="there is no topic 'odrers': did you mean 'orders'"):
        rmq_broker.messages("odrers")
    async with rmq_client.client.push_consumer("orders", reject, group="billing"):
        assert rmq_broker.messages("%DLQ%billing") == [], "made by the first dead letter"
        with pytest.raises(LookupError, match="no topic '%DLQ%biling': did you mean '%DLQ%billing'"):
            rmq_broker.messages("%DLQ%biling")


@pytest.mark.parametrize(("name", "queues"), [("", 4), ("a b", 4), (None, 4), ("tt", 0), ("tt", "4"), ("tt", True)])
async def test_what_is_no_topic_is_not_created(rmq_broker: RmqBroker, name: Any, queues: Any) -> None:
    before = rmq_broker.topics
    with pytest.raises(Error, match=r"topic|queues="):
        await rmq_broker.create_topic(name, queues)
    assert rmq_broker.topics == before


@pytest.mark.parametrize("seconds", ["x", None, -1, float("nan")])
async def test_a_delay_is_a_number_of_seconds(rmq_broker: RmqBroker, seconds: Any) -> None:
    with pytest.raises(Error, match="is no number of seconds of 0 or more"):
        rmq_broker.faults.delay(seconds)


def test_what_tests_catch_and_annotate_is_exported() -> None:
    assert {getattr(testing, name).__name__ for name in testing.__all__} == set(testing.__all__) >= {"NotSettled"}
