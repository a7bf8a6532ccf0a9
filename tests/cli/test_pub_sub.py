"""`pyromq pub` and `pyromq sub` as a user calls them, against our own name server and broker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pyromq.cli.msg.sub import Listener
from pyromq.client.received import Received
from pyromq.client.subscription import everything
from pyromq.model.group import ConsumeFromWhere
from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("pub"), enable_property_filter=True) as stands:
        yield stands


def test_what_is_published_is_shown(one: Standing) -> None:
    (told,) = one.rows("pub", "T", "hello", "--tag", "a", "--key", "k1", "--prop", "region=eu")
    (found,) = one.rows("sub", "T", "--from", "first", "--count", "1")
    assert (found["messageId"], found["body"], found["offset"]) == (told["messageId"], "hello", told["offset"])
    assert found["properties"]["region"] == "eu"
    line = one.shown("sub", "T", "--from", "first", "--count", "1", "--tag", "a")
    assert f"broker-a/{told['queue']}@{told['offset']}  a  k1  hello" in line
    (later,) = one.rows("sub", "T", "--from", "2020-01-01T00:00:00", "--count", "1")
    assert later["messageId"] == told["messageId"]


def test_files_lines_and_counts(one: Standing, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"from a file")
    assert len(one.shown("pub", "L", f"@{tmp_path / 'body'}", "--count", "2").splitlines()) == 2
    sent = one.shown("pub", "L", "-", "--lines", text="one\ntwo\n\nthree\n")
    assert len(sent.splitlines()) == 3
    bodies = sorted(row["body"] for row in one.rows("sub", "L", "--from", "first", "--count", "5"))
    assert bodies == ["from a file", "from a file", "one", "three", "two"]
    assert "waits until it is due" in one.shown("pub", "L", "later", "--delay", "3600")


def test_a_message_for_a_time_of_day(one: Standing) -> None:
    due = datetime.now() + timedelta(seconds=2)
    one.shown("pub", "noon", "lunch", "--at", due.isoformat())
    (found,) = one.rows("sub", "noon", "--from", "first", "--count", "1")
    assert found["body"] == "lunch"
    assert found["storedMs"] >= int(due.timestamp() * 1000)
    tomorrow = (due + timedelta(days=1)).isoformat()
    assert "waits until it is due" in one.shown("pub", "noon", "breakfast", "--at", tomorrow)
    (told,) = one.rows("pub", "noon", "late", "--at", "2020-01-01")
    assert told["status"] == "OK"
    assert "--delay and --at are 2 ways" in one.refused("pub", "noon", "x", "--at", "0", "--delay", "1", code=64)


def test_a_message_of_a_delay_level(one: Standing) -> None:
    assert "waits until it is due" in one.shown("pub", "levels", "a second later", "--delay-level", "1")
    (found,) = one.rows("sub", "levels", "--from", "first", "--count", "1")
    assert (found["body"], found["properties"]["DELAY"]) == ("a second later", "1")
    assert found["storedMs"] - found["bornMs"] >= 1_000
    said = one.refused("pub", "levels", "x", "--delay-level", "1", "--delay", "1", code=64)
    assert "--delay and --delay-level are 2 ways" in said


def test_lines_of_ones_own(one: Standing) -> None:
    (told,) = one.rows("pub", "own", "a {b}", "--tag", "t", "--key", "k1", "--key", "k2", "--prop", "region=eu")
    form = r"{{{messageId}}} {topic}/{queue}@{offset}\t{tag}|{keys}|{prop:region}|{prop:none}|{attempt} {body}"
    line = one.shown("sub", "own", "--from", "first", "--count", "1", "-f", form)
    assert line == f"{{{told['messageId']}}} own/{told['queue']}@0\tt|k1 k2|eu||1 a {{b}}\n"
    assert json.loads(one.shown("sub", "own", "--tail", "1", "--count", "1", "-f", "{properties}"))["region"] == "eu"
    for wrong, words in (
        ("{bdy}", "a message has no 'bdy'. Closest: 'body'"),
        ("{body!r}", "a message has no 'body!r'"),
        ("{prop}", "a message has no 'prop'"),
        ("{}", "There are messageId, topic"),
        ("{body", "Write braces themselves as {{ and }}"),
    ):
        assert words in one.refused("sub", "own", "-f", wrong, code=64)
    assert "two forms" in one.refused("sub", "own", "-f", "{body}", "--json", code=64)


def test_a_group_goes_on_where_it_stopped_and_lookers_do_not_disturb(one: Standing) -> None:
    one.shown("pub", "G", "-", "--lines", "--order-key", "k", text="0\n1\n2\n3\n")
    for expected in (["0", "1"], ["2", "3"]):
        one.rows("sub", "G", "--from", "first", "--count", "1")
        shown = one.rows("sub", "G", "-g", "g", "--from", "first", "--count", "2")
        assert [row["body"] for row in shown] == expected


def test_a_group_that_pops_goes_on_too_and_needs_a_name(one: Standing) -> None:
    one.shown("pub", "P", "-", "--lines", text="0\n1\n2\n3\n")
    seen = []
    for _ in range(2):
        seen += one.rows("sub", "P", "-g", "poppers", "--pop", "--from", "first", "--count", "2")
    assert sorted(row["body"] for row in seen) == ["0", "1", "2", "3"]
    assert "there is no topic" in one.refused("topic", "describe", "%RETRY%poppers_P")  # none was given back
    back = ("sub", "P", "-g", "poppers", "--pop", "--from", "-1h")
    assert "--from first or --from latest" in one.refused(*back, code=64)


def test_queues_that_a_topic_gets_while_it_is_looked_at_are_shown_from_their_first_message(one: Standing) -> None:
    async def look() -> set[str]:
        shown: set[str] = set()
        begin = {"begin": ConsumeFromWhere.LAST_OFFSET}
        enough = asyncio.Event()

        def show(msg: Received) -> None:
            shown.add(msg.body.decode())
            if len(shown) == 21:
                enough.set()

        await one.world.create_topic("grown", 2)
        async with one.world.client(route_refresh_s=0.2) as client, client.producer() as producer:
            looking = asyncio.create_task(
                Listener("grown", everything(), begin, show, None, enough).browse(client, None)
            )
            while not shown:  # it has begun
                await producer.send("grown", "old")
            await one.world.create_topic("grown", 4)
            async with one.world.client() as other, other.producer() as sender:
                for number in range(20):
                    await sender.send("grown", str(number))
            await looking
        return shown

    assert one.do(look()) == {"old", *map(str, range(20))}


def test_the_last_ones_of_all_queues_come_first(one: Standing) -> None:
    for number in range(9):
        one.send("tail", str(number), tag="odd" if number % 2 else "even")
    for words, expected in (
        (["--tail", "3"], ["6", "7", "8"]),
        (["--tail", "50", "--count", "9"], list("012345678")),
        (["--tail", "4", "--tag", "odd", "--count", "2"], None),
    ):
        shown = one.rows("sub", "tail", *words, *([] if "--count" in words else ["--count", "3"]))
        bodies = [row["body"] for row in shown]
        assert bodies == expected if expected else set(bodies) <= {"1", "3", "5", "7"}
    assert "without --from and --group" in one.refused("sub", "tail", "--tail", "1", "-g", "g", code=64)


def test_sql(one: Standing) -> None:
    for region in ("eu", "us"):
        one.shown("pub", "S", region, "--prop", f"region={region}")
    (found,) = one.rows("sub", "S", "--sql", "region = 'us'", "--from", "first", "--count", "1")
    assert found["body"] == "us"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("pub", "T", "x", "--prop", "region"), 64, "--prop 'region': write it as NAME=VALUE"),
        (("pub", "T", "x", "--prop", "=v"), 64, "--prop '=v': write it as NAME=VALUE, with something on both sides"),
        (("pub", "T", "x", "--prop", "region="), 64, "--prop 'region=': write it as NAME=VALUE"),
        (("sub", "T", "--tag", "a", "--sql", "b > 1"), 64, "two kinds of filter"),
        (("sub", "T", "--from", "tomorrow"), 64, "--from tomorrow: neither milliseconds nor a time"),
        (("sub", "T", "--from", "9" * 20), 64, "neither milliseconds nor a time"),
        (("sub", "T", "--from", "\u00b2"), 64, "neither milliseconds nor a time"),
        (("pub", "T", "x", "--delay", "nan"), 64, "nan is no finite number"),
        (("pub", "T", "x", "--delay", "inf"), 64, "inf is not in the range"),
        (("pub", "T", "x", "--delay", "1e300"), 64, "is not in the range"),
        (("pub", "T", "x", "--rate", "nan"), 64, "nan is no finite number"),
        (("pub", "T", "x", "--rate", "1e-300"), 64, "is not in the range"),
        (("pub", "T", "x", "--timeout", "nan"), 64, "nan is no finite number"),
        (("req", "T", "x", "--wait", "inf"), 64, "is not in the range"),
        (("--timeout", "inf", "topic", "list"), 64, "is not in the range"),
        (("top", "--every", "nan"), 64, "nan is no finite number"),
        (("pub", "T", "@/nowhere"), 78, "/nowhere"),
        (("sub", "SELF_TEST_TOPIC", "--sql", "a >"), 78, "line 1, column"),
        (("sub", "SELF_TEST_TOPIC", "--sql", "a >", "-g", "g"), 78, "line 1, column"),
        (("sub", "T", "--pop"), 64, "give --group with it"),
        (("sub", "nowhere"), 1, "topic 'nowhere' does not exist"),
        (("sub", "nowhere", "-g", "g"), 1, "topic 'nowhere' does not exist"),
    ],
)
def test_what_cannot_be_is_refused_in_words(one: Standing, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in one.refused(*words, code=code)


@pytest.mark.parametrize("words", ["msg export piped", "sub piped --from first", "sub piped --from first -g g"])
def test_a_reader_that_has_enough_ends_it_well(one: Standing, words: str) -> None:
    one.send("piped", "x")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "pyromq", "-n", one.names, "--log-level", "error", *words.split()]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
