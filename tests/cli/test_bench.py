"""`pyromq bench`: Apache's flags and columns, against a running broker and by numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.cli.bench.counts import MessagesConsumed, MessagesSent, TimersDelivered, TimersSent
from pyromq.cli.main import cli
from tests.cli.standing import Standing, standing

# The lines that Apache's benchmark 5.5.0 prints, as expressions.
PRODUCER = re.compile(
    r"\[Complete\] Send Total: 40 \| Send TPS: \d+ \| Max RT\(ms\): \d+ \| Average RT\(ms\): +\d+\.\d{3} \| "
    r"Send Failed: 0 \| Response Failed: 0"
)
CONSUMER = re.compile(
    r"Consume TPS: \d+ \| AVG\(B2C\) RT\(ms\): +\d+\.\d{3} \| AVG\(S2C\) RT\(ms\): +\d+\.\d{3} \| "
    r"MAX\(B2C\) RT\(ms\): \d+ \| MAX\(S2C\) RT\(ms\): \d+ \| Consume Fail: \d+"
)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("bench")) as stands:
        stands.do(stands.world.create_topic("B", 4))
        yield stands


def test_producer_and_consumer_print_apaches_lines(one: Standing, tmp_path: Path) -> None:
    flags = [
        "-t",
        "B",
        "-w",
        "4",
        "-s",
        "100",
        "-k",
        "true",
        "-p",
        "40",
        "-l",
        "2",
        "-q",
        "40",
        "-ri",
        "60000",
        "-c",
        "true",
        "-ch",
        "50",
    ]
    first, last = one.shown("bench", "producer", *flags).splitlines()
    assert first.startswith(
        "topic: B, threadCount: 4, messageSize: 100, keyEnable: true, propertySize: 40, tagCount: 2"
    )
    assert PRODUCER.fullmatch(last), last
    sent = one.rows("msg", "query", "B", "--most", "100")
    assert len(sent) == 40
    assert {row["tags"] for row in sent} <= {"tag0", "tag1"}
    assert {len(row["body"]) for row in sent} == {100}
    assert all("prop0" in row["properties"] and row["keys"] for row in sent)

    *_, started, last = one.shown("bench", "consumer", "-t", "B", "-g", "bg", "-q", "40", "-ri", "60000").splitlines()
    assert started == "Consumer Started."
    assert CONSUMER.search(last), last
    (tmp_path / "tags").write_text("tag0 || tag1\n")
    words = ["-t", "B", "-g", "bg2", "-q", "40", "-f", "TAG", "-e", str(tmp_path / "tags"), "-ri", "60000"]
    (row,) = one.rows("bench", "consumer", *words)
    assert row["consumed"] >= 40
    assert "-f and -e go together" in one.refused("bench", "consumer", "-f", "TAG", code=64)


def test_async_sends_and_json(one: Standing) -> None:
    (row,) = one.rows("bench", "producer", "-t", "B", "-y", "true", "-q", "30", "-ri", "60000")
    assert (row["sent"], row["sendFailed"], row["responseFailed"], row["complete"]) == (30, 0, 0, True)


@pytest.mark.parametrize(
    "words",
    [("bench", "producer", "-q", "1"), ("bench", "consumer", "-q", "1"), ("bench", "timer"), ("top", "--once")],
)
def test_where_nobody_answers_the_exit_code_is_2(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["-n", "127.0.0.1:1", "--timeout", "1", *words])
    assert done.exit_code == 2
    assert "no name server answers" in done.stderr


def test_timers_are_sent_and_come_when_they_are_due(one: Standing) -> None:
    """Their topic is made by the first send; those of another run are not counted."""
    flags = "bench timer -t Timers -ms 10 -p 1 -sd 50 -ri 60000"
    first, came, sent = one.shown(*f"{flags} -tc 2 -st 2 -mt 5 --first 0.2".split()).splitlines()
    assert first.startswith("topic: Timers, threadCount: 2, messageSize: 10, precisionMs: 1, slotsTotal: 2")
    assert re.fullmatch(
        r"\[Complete\] Consume Total: 20 \| Consume TPS: \d+, Avg delayedDuration: +\d+\.\d{3}, Max delayedDuration: "
        r"\d+, delayDuration %25: \d+, %50: \d+; %80: \d+; %90: \d+; %99: \d+; %99\.9: \d+",
        came,
    ), came
    assert sent.startswith("[Complete] Send Total: 20 | Send TPS: ")
    (row,) = one.rows(*f"{flags} -tc 1 -st 1 -mt 3 --first 0 --only send".split())
    assert (row["sent"], row["sendFailed"], row["responseFailed"]) == (3, 0, 0)
    (row,) = one.rows(*f"{flags} --only consume -q 3".split())
    assert row["consumed"] >= 3
    delays = {int(row["properties"]["MY_RECORD_TIMER_DELIVER_MS"]) for row in one.rows("msg", "query", "Timers")}
    assert len(delays) == 3


def test_a_delayed_producer_sends_levels(one: Standing) -> None:
    flags = ["-t", "Levels", "-w", "1", "-q", "1", "-d", "true", "-e", "1", "-ri", "60000"]
    one.do(one.world.create_topic("Levels", 1))
    assert "delayEnable: true, delayLevel: 1" in one.shown("bench", "producer", *flags)
    (found,) = one.rows("sub", "Levels", "--from", "first", "--count", "1")
    assert found["properties"]["DELAY"] == "1"
    assert "TIMER_DELAY_MS" not in found["properties"]


def test_shares_of_delays_are_of_all_messages() -> None:
    counts = TimersDelivered(0.0)
    assert counts.total(1.0)["late99.9"] == 0
    for late_ms in [0] * 50 + [10] * 40 + [70] * 10:
        counts.got(late_ms)
    assert counts.line(10.0, "now", False) == (
        "Current Time: now | Consume TPS: 10, Avg delayedDuration:  11.000, Max delayedDuration: 70, "
        "delayDuration %25: 0, %50: 10; %80: 10; %90: 70; %99: 70; %99.9: 70"
    )
    counts.got(3)
    assert "Consume TPS: 1, Avg delayedDuration:   3.000, Max delayedDuration: 70" in counts.line(11.0, "now", False)


def test_timers_that_are_sent_have_apaches_columns() -> None:
    counts = TimersSent(0.0)
    counts.sent(2.0)
    assert counts.complete(1.0) == (
        "[Complete] Send Total: 1 | Send TPS: 1, Max RT: 2, Average RT:   2.000, Send Failed: 0, Response Failed: 0"
    )


def test_a_line_is_of_its_interval_and_the_last_one_of_all() -> None:
    counts = MessagesSent(0.0)
    for took in (2.0, 4.0):
        counts.sent(took)
    assert counts.line(2.0, "now", False) == (
        "Current Time: now | Send TPS: 1 | Max RT(ms): 4 | Average RT(ms):   3.000 | Send Failed: 0 | "
        "Response Failed: 0"
    )
    counts.sent(6.0)
    counts.failed += 1
    assert "Send TPS: 1 | Max RT(ms): 6 | Average RT(ms):   6.000 | Send Failed: 1" in counts.line(3.0, "now", False)
    assert counts.complete(3.0).startswith("[Complete] Send Total: 4 | Send TPS: 1 | Max RT(ms): 6")
    assert counts.total(3.0)["averageRt"] == 4.0


def test_greatest_times_of_a_consumer_begin_anew_with_each_line() -> None:
    counts = MessagesConsumed(0.0)
    counts.got(10, 4)
    counts.got(20, 8)
    assert "Consume TPS: 2 | AVG(B2C) RT(ms):  15.000 | AVG(S2C) RT(ms):   6.000 | MAX(B2C) RT(ms): 20" in counts.line(
        1.0, "now", False
    )
    counts.got(1, 1)
    assert "Consume TPS: 1 | AVG(B2C) RT(ms):   1.000 | AVG(S2C) RT(ms):   1.000 | MAX(B2C) RT(ms): 1 " in counts.line(
        2.0, "now", False
    )
    assert counts.total(2.0)["consumed"] == 3
