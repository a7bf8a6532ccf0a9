"""`pyromq bench`: Apache's flags and columns, against a running broker and by numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.cli.bench_counts import Consumed, Sent
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
    "words", [("bench", "producer", "-q", "1"), ("bench", "consumer", "-q", "1"), ("top", "--once")]
)
def test_where_nobody_answers_the_exit_code_is_2(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["-n", "127.0.0.1:1", "--timeout", "1", *words])
    assert done.exit_code == 2
    assert "no name server answers" in done.stderr


def test_a_line_is_of_its_interval_and_the_last_one_of_all() -> None:
    counts = Sent(0.0)
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
    counts = Consumed(0.0)
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
