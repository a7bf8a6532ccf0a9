"""`pyromq topic` with two brokers: tables, JSON, refusals."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.mqadmin.main import run as mqadmin
from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("topic"), "broker-a", "broker-b") as stands:
        stands.do(stands.world.create_topic("orders", 2))
        yield stands


def test_list_hides_what_is_the_systems_own(two: Standing) -> None:
    (row,) = two.rows("topic", "list", "orders")
    assert row == {
        "topic": "orders",
        "type": "UNSPECIFIED",
        "writeQueues": 4,
        "readQueues": 4,
        "permission": "rw",
        "order": False,
        "brokers": ["broker-a", "broker-b"],
    }
    table = two.shown("topic", "list").splitlines()
    assert table[0].split() == ["topic", "type", "write", "queues", "read", "queues", "permission", "order", "brokers"]
    assert not any(line.startswith(("SELF_TEST_TOPIC", "DefaultCluster", "broker-a")) for line in table)
    everything = {row["topic"] for row in two.rows("topic", "list", "--all")}
    assert {"SELF_TEST_TOPIC", "DefaultCluster", "broker-a", "orders"} <= everything
    assert two.shown("topic", "list", "nothing*") == "no topic fits 'nothing*'\n"


def test_describe_tells_brokers_queues_and_groups(two: Standing) -> None:
    two.do(two.world.create_topic("described", 1))
    two.send("described", "one", "two", "three", order_key="k")
    found = two.report("topic", "describe", "described")
    assert (found["topic"], found["messages"]) == ("described", 3)
    assert [one["broker"] for one in found["brokers"]] == ["broker-a", "broker-b"]
    assert sorted(one["messages"] for one in found["queues"]) == [0, 3]
    told = two.shown("topic", "describe", "described")
    assert "messages    3" in told
    assert "\nqueues\n" in told
    assert "there is no topic 'describe'. Closest: 'described'" in two.refused("topic", "describe", "describe")


def test_stats_and_a_reset_are_of_all_brokers_and_groups(two: Standing) -> None:
    two.do(two.world.create_topic("watched", 1))
    (row,) = two.rows("topic", "stats", "watched")
    assert row == {"topic": "watched", "group": None, "lag": None, "inPerSecond": 0.0, "outPerSecond": None} | {
        "inOfDay": 0,
        "outOfDay": None,
    }
    assert "no group has consumed watched yet" in two.refused("topic", "reset", "watched", "--time", "0", "--yes")
    two.send("watched", *"abcdef")
    for group in ("g1", "g2"):
        two.rows("sub", "watched", "-g", group, "--from", "first", "--count", "6")
    rows = two.rows("topic", "stats", "watched")
    assert [(one["group"], one["lag"]) for one in rows] == [("g1", 0), ("g2", 0)]
    assert [(one["inOfDay"], one["outOfDay"] >= 6) for one in rows] == [(6, True), (6, True)]
    assert "watched" in {one["topic"] for one in two.rows("topic", "stats", "--active")}
    assert "watched" in {one["topic"] for one in two.rows("topic", "stats")}
    assert "TBW102" in {one["topic"] for one in two.rows("topic", "stats", "--all")}
    moved = two.rows("topic", "reset", "watched", "--time", "2026-01-01", "--yes")
    places = [(one["group"], one["broker"], one["goesOnAt"]) for one in moved]
    assert places == [(group, broker, 0) for group in ("g1", "g2") for broker in ("broker-a", "broker-b")]
    assert [one["lag"] for one in two.rows("topic", "stats", "watched")] == [6, 6]
    ends = {one["broker"]: one["end"] for one in two.report("topic", "describe", "watched")["queues"]}
    moved = two.rows("topic", "reset", "watched", "--time", "2100-01-01", "-b", "broker-a", "--yes")
    assert [(one["group"], one["goesOnAt"]) for one in moved] == [(group, ends["broker-a"]) for group in ("g1", "g2")]
    assert "neither milliseconds" in two.refused("topic", "reset", "watched", "--time", "soon", "--yes", code=64)


def test_create_update_perm_and_delete(two: Standing) -> None:
    made = two.rows("topic", "create", "made", "--queues", "3", "--type", "fifo", "-b", "broker-a")
    assert made == [
        {"topic": "made", "broker": "broker-a", "writeQueues": 3, "readQueues": 3, "permission": "rw", "order": False}
        | {"attributes": "+message.type=FIFO"}
    ]
    assert "is on broker-a already. Change it: pyromq topic update made" in two.refused("topic", "create", "made")
    (listed,) = two.rows("topic", "list", "made")
    assert (listed["type"], listed["writeQueues"], listed["brokers"]) == ("FIFO", 3, ["broker-a"])

    dry = two.shown("topic", "update", "made", "--queues", "5", "--dry-run")
    assert "would change topic made on 1 broker" in dry
    assert "nothing was changed" in dry
    assert two.rows("topic", "list", "made")[0]["writeQueues"] == 3
    assert two.rows("topic", "update", "made", "--queues", "5", "--read-queues", "6", "--yes")[0]["readQueues"] == 6
    assert two.rows("topic", "perm", "made", "r", "-y")[0]["permission"] == "r"
    (listed,) = two.rows("topic", "list", "made")
    assert (listed["writeQueues"], listed["readQueues"], listed["permission"]) == (5, 6, "r")

    assert "nothing was changed" in two.refused("topic", "delete", "made", text="n\n")
    assert "Give --yes" in two.refused("topic", "delete", "made", text="")
    assert "give --yes" in two.refused("topic", "delete", "made", "--json", code=64)
    assert two.rows("topic", "list", "made")
    assert "topic made is deleted" in two.shown("topic", "delete", "made", text="y\n")
    assert two.rows("topic", "list", "made") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["delete", "ordres", "--yes"], 1, "there is no topic 'ordres'. Closest: 'orders'"),
        (["update", "orders"], 64, "say what to change"),
        (["create", "bad name"], 64, "bad name"),
        (["create", "x", "--attr", "k=v"], 64, "write +KEY=VALUE"),
        (["create", "x", "-c", "DefaultClustr"], 1, "Closest: 'DefaultCluster'"),
        (["create", "x", "-b", "broker-c"], 1, "there is no broker 'broker-c'"),
        (["perm", "orders", "rwx"], 64, "rwx"),
        (["forward", "orders", "orders"], 64, "the same topic"),
        (["forward", "orders", "new"], 64, "--queues says how many"),
        (["forward", "ordres", "new", "--queues", "4"], 1, "Closest: 'orders'"),
        (["lst"], 64, "Closest: 'list'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(two: Standing, words: list[str], code: int, said: str) -> None:
    assert said in two.refused("topic", *words, code=code)


def test_forward_copies_a_backlog_once_and_goes_on_where_it_was(two: Standing, tmp_path: Path) -> None:
    two.do(two.world.create_topic("narrow", 1))
    for key in ("x", "y"):
        two.send("narrow", *(f"{key}{number}" for number in range(40)), order_key=key, tag="t")
    dry = two.shown("topic", "forward", "narrow", "wide", "--queues", "4", "--dry-run")
    assert "would copy 80 messages of narrow into wide, made with 4 queues on each broker" in dry
    assert two.rows("topic", "list", "wide") == []
    (done,) = two.rows("topic", "forward", "narrow", "wide", "--queues", "4", "--yes")
    assert done == {"source": "narrow", "target": "wide", "copied": 80, "goneOn": False}
    two.send("narrow", "x40", order_key="x")
    (again,) = two.rows("topic", "forward", "narrow", "wide", "--yes")
    assert again == {"source": "narrow", "target": "wide", "copied": 1, "goneOn": True}

    lines = two.rows("msg", "export", "wide")
    by_key: dict[str, list[str]] = {"x": [], "y": []}
    for line in lines:
        by_key[line["orderKey"]].append(line["body"])
        assert (line["tags"], "COPY_OF" in line["properties"]) == ("t" if line["body"] != "x40" else "", True)
    assert by_key == {"x": [f"x{n}" for n in range(41)], "y": [f"y{n}" for n in range(40)]}
    assert two.rows("topic", "list", "wide")[0]["writeQueues"] == 8


def test_forward_begins_where_a_group_is(two: Standing) -> None:
    two.do(two.world.create_topic("half", 1))
    two.send("half", *map(str, range(6)), order_key="k")
    two.shown("group", "create", "halfway")
    (place,) = [one for one in two.report("topic", "describe", "half")["queues"] if one["messages"]]
    where = ["-b", place["broker"], "--queue", "0"]
    two.shown("group", "reset", "halfway", "half", *where, "--offset", "4", "--yes")
    told = two.shown("topic", "forward", "half", "rest", "--queues", "2", "--group", "halfway", "--yes")
    assert "Let it skip them there: pyromq group skip halfway half" in told
    assert sorted(line["body"] for line in two.rows("msg", "export", "rest")) == ["4", "5"]
    assert "Closest: 'halfway'" in two.refused("topic", "forward", "half", "rest", "--group", "halfwa", "--yes")


def test_fewer_queues_hide_messages_that_nobody_has_read(two: Standing) -> None:
    two.shown("topic", "create", "shrinks", "--queues", "4", "-b", "broker-a")
    for number, bodies in enumerate(("a", "b", "c", "de")):
        two.send("shrinks", *bodies, queue=lambda queues, number=number: queues[number])
    dry = two.run("topic", "update", "shrinks", "--queues", "2", "--dry-run")
    assert "would change topic shrinks on 1 broker and hide 3 messages that are not consumed" in dry.stdout
    assert "broker-a: 1 in queue 2, 2 in queue 3" in dry.stderr
    assert "pyromq topic update shrinks --queues 2 --read-queues 4" in dry.stderr
    assert "hide 3 messages" in two.refused("topic", "update", "shrinks", "--queues", "2", text="n\n")
    assert "WARNING" not in two.run("topic", "update", "shrinks", "--queues", "2", "--read-queues", "4", "--yes").stderr
    two.shown("group", "create", "reader")
    two.shown("group", "skip", "reader", "shrinks", "--queue", "3", "-b", "broker-a", "--yes")
    (row,) = two.rows("topic", "update", "shrinks", "--read-queues", "2", "--yes")
    assert (row["readQueues"], row["hides"]) == (2, {"2": 1})


KEY = "ORDER_TOPIC_CONFIG"


def order_of(two: Standing, topic: str) -> str | None:
    done = two.run("kv", "get", "ORDER_TOPIC_CONFIG", topic, "--json")
    return json.loads(done.stdout)["value"] if done.exit_code == 0 else None


def test_an_order_topic_has_its_queues_in_the_name_servers(two: Standing, tmp_path: Path) -> None:
    two.shown("topic", "create", "steps", "--queues", "2", "--order")
    assert order_of(two, "steps") == "broker-a:2;broker-b:2"
    two.shown("topic", "update", "steps", "--queues", "3", "-b", "broker-b", "--yes")
    assert order_of(two, "steps") == "broker-a:2;broker-b:3"
    two.shown("topic", "update", "steps", "--no-order", "-b", "broker-a", "--yes")
    assert order_of(two, "steps") == "broker-b:3"
    (tmp_path / "all.toml").write_text("[topics.steps]\norder = true\nwriteQueues = 4\n")
    two.shown("apply", str(tmp_path / "all.toml"), "--yes")
    assert order_of(two, "steps") == "broker-b:4;broker-a:4"
    two.shown("topic", "delete", "steps", "--yes")
    assert order_of(two, "steps") is None
    two.shown("topic", "create", "plain")
    assert order_of(two, "plain") is None


def test_keys_of_an_order_topic_move_only_where_nobody_waits_or_by_the_flag(two: Standing) -> None:
    two.shown("topic", "create", "moves", "--queues", "2", "--order")
    assert two.rows("topic", "update", "moves", "--queues", "3", "--yes")[0]["writeQueues"] == 3, "empty"
    two.send("moves", "one", "two", order_key="k")
    for how in ("--yes", "--dry-run"):
        said = two.refused("topic", "update", "moves", "--queues", "4", how)
        assert "2 messages of the order topic moves not consumed by every group" in said
        assert "keys move to other queues" in said
        assert "--move-keys" in said
    assert order_of(two, "moves") == "broker-a:3;broker-b:3"
    two.rows("sub", "moves", "-g", "mover", "--from", "first", "--count", "2")
    assert two.rows("topic", "update", "moves", "--queues", "4", "--yes")[0]["writeQueues"] == 4, "all is consumed"
    two.send("moves", "three", order_key="k")
    done = two.run("topic", "update", "moves", "--queues", "5", "--move-keys", "--yes")
    assert (done.exit_code, "keys move to other queues" in done.stderr) == (0, True)
    assert order_of(two, "moves") == "broker-a:5;broker-b:5"


def test_an_order_topic_on_a_further_broker_moves_keys_as_other_numbers_do(two: Standing, tmp_path: Path) -> None:
    create = ["topic", "create", "grows", "--queues", "2", "--order", "-b"]
    two.shown(*create, "broker-a")
    (cure,) = [row for row in two.rows("doctor", "--topic", "grows") if "1 of 2 brokers" in row["text"]]
    assert cure["command"] == "pyromq topic create grows --queues 2 --order -b broker-b --dry-run"
    assert "most keys move to other queues" in cure["cure"]
    two.send("grows", "one", "two", order_key="k")
    (tmp_path / "all.toml").write_text("[topics.grows]\norder = true\nwriteQueues = 2\nreadQueues = 2\n")
    ways = (
        [*create, "broker-b"],
        [*create, two.world.brokers["broker-b"].address],
        ["apply", str(tmp_path / "all.toml")],
    )
    for way in ways:
        for how in ("--yes", "--dry-run"):
            said = two.refused(*way, how)
            assert (
                "2 messages of the order topic grows not consumed by every group: with broker-a:2;broker-b:2 " in said
            )
            assert "in place of broker-a:2 keys move to other queues" in said
            assert "--move-keys" in said
    assert order_of(two, "grows") == "broker-a:2"
    done = two.run(*ways[1], "--move-keys")
    assert (done.exit_code, "WARNING: 2 messages of the order topic" in done.stderr) == (0, True)
    assert order_of(two, "grows") == "broker-a:2;broker-b:2", "the broker by its name, though its address was given"
    said = two.refused("topic", "update", "grows", "--no-order", "-b", "broker-b", "--dry-run")
    assert "with broker-a:2 in place of broker-a:2;broker-b:2 keys move" in said
    (tmp_path / "all.toml").write_text("[topics.grows]\nwriteQueues = 4\nreadQueues = 4\n")
    for how in ("--yes", "--dry-run"):
        said = two.refused("apply", str(tmp_path / "all.toml"), how)
        assert "2 messages of the order topic grows not consumed" in said
    done = two.run("apply", str(tmp_path / "all.toml"), "--move-keys", "--yes")
    assert (done.exit_code, order_of(two, "grows")) == (0, "broker-a:4;broker-b:4")


def test_an_order_configuration_that_nobody_can_read_is_said_everywhere(two: Standing) -> None:
    two.shown("topic", "create", "torn", "--queues", "2", "--order")
    two.shown("pub", "torn", "first", "--order-key", "k")
    assert "'garbage' in it is not BROKER:QUEUES" in two.refused("kv", "set", KEY, "torn", "garbage", code=64)
    said = two.refused("kv", "set", KEY, "torn", "broker-a:1", text="n\n")
    assert "change torn in ORDER_TOPIC_CONFIG and move order keys of topic torn to other queues" in said
    assert "move order keys of topic torn to other queues" in two.shown("kv", "delete", KEY, "torn", "--dry-run")
    words = ["updateKvConfig", "-n", two.names, "-s", KEY, "-k", "torn", "-v", "garbage"]
    assert mqadmin(words, print, print) == 0
    fault = "ORDER_TOPIC_CONFIG of torn is 'garbage', and 'garbage' in it is not BROKER:QUEUES"
    for way in (["pub", "torn", "x"], ["pub", "torn", "x", "--order-key", "k"]):
        said = two.refused(*way, code=78)
        assert fault in said
        assert "Set it right: pyromq kv set ORDER_TOPIC_CONFIG torn BROKER:QUEUES" in said
    for how in ("--yes", "--dry-run"):
        assert fault in two.refused("topic", "update", "torn", "--queues", "3", how, code=78)
    rows = map(json.loads, two.run("doctor", "--topic", "torn", "--json").stdout.splitlines())
    (found,) = [row for row in rows if row["check"] == "order"]
    assert (found["state"], fault in found["text"]) == ("broken", True)
    assert found["command"] == "pyromq kv set ORDER_TOPIC_CONFIG torn 'broker-a:2;broker-b:2' --dry-run"
    assert [row["body"] for row in two.rows("sub", "torn", "--from", "first", "--count", "1")] == ["first"], (
        "it is read"
    )
    two.shown("kv", "set", KEY, "torn", "broker-a:2;broker-b:2", "--yes")
    two.shown("pub", "torn", "second", "--order-key", "k")


def test_offsets_that_are_moved_say_how_many_messages_that_is(two: Standing) -> None:
    two.shown("topic", "create", "counted", "--queues", "1", "-b", "broker-a")
    two.send("counted", *"abc")
    for group in ("counter", "copy"):
        two.shown("group", "create", group)
    dry = two.shown("group", "skip", "counter", "counted", "--dry-run")
    assert "would let group counter skip what waits in counted: 3 messages are left out\n" in dry
    assert "3 messages are left out" in two.refused("group", "skip", "counter", "counted", text="n\n")
    two.shown("group", "skip", "counter", "counted", "--yes")
    assert "at first: 3 come again\n" in two.shown("group", "reset", "counter", "counted", "--to", "first", "--dry-run")
    (row,) = two.rows("group", "clone", "counter", "copy", "counted", "--dry-run")
    assert (row["goesOnAt"], row["leftOut"], row["again"]) == (3, 3, 0)
    assert "is: 3 messages are left out" in two.shown("group", "clone", "counter", "copy", "counted", "--dry-run")
    assert "at last\n" in two.shown("topic", "reset", "counted", "--to", "last", "--dry-run"), "nothing happens"


def test_a_question_without_an_input_is_a_no(two: Standing) -> None:
    two.shown("topic", "create", "stays", "-b", "broker-a")
    program = f"{shlex.quote(sys.executable)} -m pyromq -n '{two.names}'"
    for ending in ("<&-", "</dev/null", "<&- >&-"):
        done = subprocess.run(
            ["sh", "-c", f"{program} topic delete stays {ending}"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "nobody answered: nothing was changed. Give --yes" in done.stderr
        assert "Traceback" not in done.stderr
    assert [row["topic"] for row in two.rows("topic", "list", "stays")] == ["stays"]
    done = subprocess.run(["sh", "-c", f"{program} pub stays <&-"], capture_output=True, text=True, check=False)
    assert (done.returncode, "standard input: it is closed" in done.stderr) == (78, True)
    assert two.report("topic", "describe", "stays")["messages"] == 0


def test_queues_that_are_written_and_not_read_are_asked_for(two: Standing, tmp_path: Path) -> None:
    two.shown("topic", "create", "deaf", "--queues", "4", "-b", "broker-a")
    lost = "let nobody read what is sent to queues 2 to 3 on broker-a"
    warning = "WARNING: queues 2 to 3 of deaf on broker-a would be written and read by nobody"
    dry = two.run("topic", "update", "deaf", "--read-queues", "2", "--dry-run")
    assert (f"would change topic deaf on 1 broker and {lost}" in dry.stdout, warning in dry.stderr) == (True, True)
    for number in range(4):
        two.send("deaf", "x", queue=lambda queues, number=number: queues[number])
    said = two.refused("topic", "update", "deaf", "--read-queues", "2", text="n\n")
    assert f"and hide 2 messages that are not consumed and {lost}" in said
    assert "To have them consumed first: pyromq topic update deaf --queues 2 --read-queues 4" in said
    (tmp_path / "all.toml").write_text("[topics.deaf]\nreadQueues = 2\nbrokers = ['broker-a']\n")
    dry = two.run("apply", str(tmp_path / "all.toml"), "--dry-run")
    assert f"and hide 2 messages that are not consumed and {lost} in deaf" in dry.stdout
    assert warning in dry.stderr
    create = ["topic", "create", "deafer", "--queues", "3", "--read-queues", "2", "-b", "broker-a"]
    assert "let nobody read what is sent to queue 2 on broker-a" in two.refused(*create, text="n\n")
    assert two.rows(*create, "--yes")[0]["unread"] == "queue 2"
    assert "WARNING" not in two.run("topic", "update", "deafer", "--perm", "rw", "--yes").stderr, "it was so before"


def test_what_may_not_be_read_or_written_is_said(two: Standing) -> None:
    two.shown("topic", "create", "shut", "--queues", "1", "--perm", "w")
    for how in ([], ["-g", "some"]):
        said = two.refused("sub", "shut", "--from", "first", "--count", "1", *how, code=78)
        assert "topic 'shut' has no queue that may be read. Let it be read: pyromq topic perm shut rw" in said
    two.shown("topic", "perm", "shut", "r", "--yes")
    said = two.refused("pub", "shut", "x", code=78)
    assert "topic 'shut' has no queue that may be written. Let it be written: pyromq topic perm shut rw" in said
