"""`pyromq` cluster, broker config, kv, req, top and doctor."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from pyromq import admin
from pyromq.access.signatures import Signer
from pyromq.admin.calls import Calls
from pyromq.admin.checkup.server_checks import broker_now_ms
from pyromq.cli.main import cli
from pyromq.cli.terminal.shell import Shell
from pyromq.client.received import Received
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("cluster"), "broker-a", "broker-b") as stands:
        stands.do(stands.world.create_topic("orders", 2))
        stands.send("orders", *map(str, range(6)))
        yield stands


def test_clusters_and_brokers(two: Standing) -> None:
    (row,) = two.rows("cluster", "list")
    assert (row["cluster"], row["masters"], row["slaves"], row["away"]) == ("DefaultCluster", 2, 0, 0)
    brokers = two.rows("cluster", "brokers", "DefaultCluster")
    assert [(one["broker"], one["id"], one["answers"], one["version"]) for one in brokers] == [
        ("broker-a", 0, True, "V5_5_0"),
        ("broker-b", 0, True, "V5_5_0"),
    ]
    assert sum(one["messagesToday"] for one in brokers) == 6
    assert two.shown("cluster", "brokers").split()[:3] == ["cluster", "broker", "id"]
    assert "Closest: 'DefaultCluster'" in two.refused("cluster", "brokers", "DefaultClustr")


def test_settings_of_brokers(two: Standing) -> None:
    rows = two.rows("broker", "config", "get", "fileReservedTime")
    assert [(row["broker"], row["value"]) for row in rows] == [("broker-a", "72"), ("broker-b", "72")]
    assert "maxMessageSize" in two.shown("broker", "config", "get", "max*", "-b", "broker-a")
    change = ["broker", "config", "set", "fileReservedTime", "48", "-b", "broker-b"]
    assert "would set fileReservedTime to 48" in two.shown(*change, "--dry-run")
    assert two.rows(*change, "--yes") == [{"broker": "broker-b", "key": "fileReservedTime", "was": "72", "value": "48"}]
    assert {row["value"] for row in two.rows("broker", "config", "get", "fileReservedTime")} == {"72", "48"}
    (row,) = two.rows("broker", "config", "set", "diskSpaceCleanForciblyRatio", "0.9", "-b", "broker-b", "--yes")
    assert row["note"] == "diskSpaceCleanForciblyRatio = 0.9 counts as 0.85, as in Java"
    assert "Closest: 'maxMessageSize'" in two.refused("broker", "config", "get", "maxMesageSize")
    assert "Closest: 'fileReservedTime'" in two.refused("broker", "config", "set", "fileReservdTime", "1", "--yes")
    said = two.refused("broker", "config", "set", "brokerName", "x", "--yes", code=78)
    assert said == (
        "pyromq: brokerName of broker-a cannot be changed while running: set it in the broker's file and start it "
        "again. Which can: pyromq config list\n"
    )
    said = two.refused("broker", "config", "set", "fileReservedTime", "abc", "--yes", code=78)
    assert "must be a whole number" in said
    assert "updateTopicPerm" not in said  # the hint for those who may not send


def test_a_value_in_other_words_is_the_same_value(two: Standing) -> None:
    for key, value, shown in (("traceOn", "TRUE", "true"), ("fileReservedTime", "0072", "72")):
        (row,) = two.rows("broker", "config", "set", key, value, "-b", "broker-a", "--yes")
        assert row == {"broker": "broker-a", "key": key, "was": shown, "value": shown}


def test_a_setting_may_be_negative(two: Standing) -> None:
    words = ("broker", "config", "set", "fileReservedTime", "-3", "-b", "broker-a", "--dry-run")
    assert two.refused(*words, code=78) == "pyromq: fileReservedTime = -3: must be at least 0\n"  # no option: a value
    assert "No such option '--yse'" in two.refused("broker", "config", "set", "fileReservedTime", "--yse", code=64)


def test_figures_and_draining_of_brokers(two: Standing) -> None:
    rows = two.rows("broker", "stats", "putTps", "-b", "broker-a")
    assert [(row["broker"], row["key"]) for row in rows] == [("broker-a", "putTps")]
    assert "bootTimestamp" in two.shown("broker", "stats")
    assert "Closest: 'putTps'" in two.refused("broker", "stats", "putTp")
    assert "would keep producers from writing to broker-b" in two.shown("broker", "drain", "broker-b", "--dry-run")
    two.shown("topic", "create", "alone", "-b", "broker-b")
    said = two.run("broker", "drain", "broker-b", "--dry-run").stderr
    assert said == "WARNING: no other broker takes messages of alone: sends to them will fail\n"
    two.shown("topic", "delete", "alone", "--yes")
    (drained,) = two.rows("broker", "drain", "broker-b", "--yes")
    assert drained["topics"] > 1
    assert "WARN  permission: broker-b is drained" in two.shown("doctor")
    two.shown("topic", "create", "later")  # by which the broker registers anew
    assert "WARN  permission: broker-b is drained" in two.shown("doctor")
    assert {row["broker"]: row["permission"] for row in two.rows("topic", "route", "later")}["broker-b"] == "r"
    two.shown("topic", "delete", "later", "--yes")
    permissions = {row["broker"]: row["permission"] for row in two.rows("topic", "route", "orders")}
    assert permissions == {"broker-a": "rw", "broker-b": "r"}
    assert two.rows("broker", "drain", "broker-b", "--undo", "--yes")[0]["topics"] == drained["topics"]
    assert {row["permission"] for row in two.rows("topic", "route", "orders")} == {"rw"}
    assert "is drained" not in two.shown("doctor")
    assert two.shown("topic", "route", "orders").split()[:2] == ["broker", "cluster"]
    assert "Closest: 'broker-b'" in two.refused("broker", "drain", "brokr-b", "--yes")
    assert "Closest: 'orders'" in two.refused("topic", "route", "order")


def test_the_key_value_table(two: Standing) -> None:
    assert two.rows("kv", "set", "N", "key", "value") == [{"namespace": "N", "key": "key", "value": "value"}]
    assert two.rows("kv", "get", "N", "key")[0]["value"] == "value"
    assert two.shown("kv", "list", "N").splitlines()[1].split() == ["key", "value"]
    assert "nothing was changed" in two.refused("kv", "set", "N", "key", "other", text="n\n")
    assert two.rows("kv", "set", "N", "key", "other", "--yes")[0]["value"] == "other"
    assert "there is no key 'kye'. Closest: 'key'. Looked for in 'N'" in two.refused("kv", "get", "N", "kye")
    assert "would delete key of N" in two.shown("kv", "delete", "N", "key", "--dry-run")
    assert two.rows("kv", "delete", "N", "key", "--yes")[0]["deleted"] is True
    assert "namespace 'N' has no keys" in two.refused("kv", "list", "N")


def test_a_request_and_its_reply(two: Standing) -> None:
    ready, leave = asyncio.Event(), asyncio.Event()

    async def answer() -> None:
        async with two.world.client() as client, client.producer() as producer:

            async def handle(msg: Received) -> None:
                await producer.reply(msg, b"price of " + msg.body)

            async with client.push_consumer("prices", handle, group="pricing"):
                ready.set()
                await leave.wait()

    two.do(two.world.create_topic("prices", 1))
    serving = asyncio.run_coroutine_threadsafe(answer(), two.loop)
    two.do(ready.wait())
    try:
        assert two.shown("req", "prices", "apples", "--wait", "30") == "price of apples\n"
        (row,) = two.rows("req", "prices", "pears", "--wait", "30")
        assert (row["topic"], row["reply"]) == ("prices", "price of pears")
    finally:
        two.loop.call_soon_threadsafe(leave.set)
        serving.result(60)
    assert "no reply from a consumer of 'prices' within 0.1 s" in two.refused(
        "req", "prices", "x", "--timeout", "0.1", code=3
    )


def test_one_frame_of_top(two: Standing) -> None:
    two.shown("group", "create", "watched")
    text = two.shown("top", "--once")
    assert text.startswith("2 brokers, ")
    assert [line for line in text.splitlines() if line in ("brokers", "topics", "groups")] == [
        "brokers",
        "topics",
        "groups",
    ]
    (frame,) = two.rows("top", "--once")
    (orders,) = [row for row in frame["topics"] if row["topic"] == "orders"]
    assert (orders["messages"], orders["queues"]) == (6, 4)
    assert "watched" in {row["group"] for row in frame["groups"]}


def test_a_topic_that_is_deleted_while_top_looks_is_left_out(two: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = admin.topics.configs

    async def with_a_ghost(calls: Calls, address: str) -> dict[str, TopicConfig]:
        return await configs(calls, address) | {"deleted": TopicConfig(topic_name="deleted")}

    monkeypatch.setattr(admin.topics, "configs", with_a_ghost)
    (frame,) = two.rows("top", "--once")
    assert "deleted" not in {row["topic"] for row in frame["topics"]}


def test_rates_are_what_came_between_two_frames() -> None:
    from pyromq.cli.cluster.top_screen import Frame, Screen

    first = Frame(at=10.0, topics=[{"topic": "t", "perSecond": 9.0, "messages": 4}], ends={"t": 4})
    second = Frame(at=12.0, topics=[{"topic": "t", "perSecond": 9.0, "messages": 9}], ends={"t": 9})
    assert second.with_rates_since(first).topics[0]["perSecond"] == 2.5
    many = Frame(at=1.0, topics=[{"topic": f"t{n}", "perSecond": float(n), "messages": n} for n in range(5)])
    screen = Screen(2, shows_trends=False)
    screen.show(many, 0)
    lines = list(screen.lines(None))
    assert [line.split()[0] for line in lines[4:6]] == ["t4", "t3"]
    assert lines[-1] == "  ... 3 more"


# --- doctor -----------------------------------------------------------------------------------------------------------


def findings(two: Standing, *words: str) -> list[tuple[str, str, str]]:
    done = two.run("doctor", *words, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["check"], row["state"], " ".join((row["text"], row["cure"], row["command"]))) for row in rows]


def test_doctor_finds_a_healthy_cluster_well(two: Standing) -> None:
    found = findings(two)
    assert [each for each in found if each[1] == "broken"] == []
    checks = {check for check, state, _ in found if state == "good"}
    assert {"name server", "advertised address", "gRPC endpoint", "clock", "disk", "topics", "groups"} <= checks
    told = two.shown("doctor")
    assert told.startswith("ok    name server: ")
    assert "0 failures" in told.splitlines()[-1]


def test_doctor_names_what_is_wrong_and_what_to_do(two: Standing) -> None:
    two.shown("topic", "create", "lonely", "-b", "broker-a")
    two.shown("topic", "create", "closed", "--perm", "r")
    two.shown("broker", "config", "set", "brokerPermission", "4", "-b", "broker-b", "--yes")
    try:
        told = findings(two)
        assert ("topic", "warning") in [
            each[:2] for each in told if "lonely is on 1 of 2 brokers (broker-a)" in each[2]
        ]
        assert any("pyromq topic perm closed rw -b broker-a" in text for _, _, text in told)
        assert any(
            state == "broken" and "pyromq broker config set brokerPermission 6 -b broker-b" in text
            for _, state, text in told
        )
        assert any(check == "ready" and "broker-b is not ready" in text for check, _, text in told)
        assert two.run("doctor").exit_code == 1
    finally:
        two.shown("broker", "config", "set", "brokerPermission", "6", "-b", "broker-b", "--yes")
    (topic,) = [text for check, _, text in findings(two, "--topic", "ordres") if check == "topic"]
    assert "Closest: 'orders'" in topic
    (group,) = [text for check, _, text in findings(two, "-g", "nobody") if check == "group"]
    assert "pyromq group create" in group


def test_doctor_asks_an_endpoint_that_is_named(two: Standing) -> None:
    good = two.world.brokers["broker-a"].address  # every port of a broker takes gRPC
    told = findings(two, "--endpoints", good, "--endpoints", "127.0.0.1:1")
    assert ("gRPC endpoint", "good", f"{good} answers  ") in told
    (broken,) = [text for check, state, text in told if (check, state) == ("gRPC endpoint", "broken")]
    assert broken.startswith("127.0.0.1:1 does not answer: ")
    assert two.run("doctor", "--endpoints", "127.0.0.1:1").exit_code == 1


def test_a_broker_may_be_named_before_the_command(two: Standing) -> None:
    two.shown("group", "create", "asked")
    two.send("orders", "x")
    two.shown("group", "reset", "asked", "orders", "--to", "first", "--yes")
    address = two.world.brokers["broker-b"].address
    for name, before, after in (
        ("broker-b", ("-b", "broker-b"), ()),
        ("broker-b", (), ("-b", "broker-b")),
        (address, ("--broker", address), ()),
    ):
        settings = two.rows(*before, "broker", "config", "get", "brokerName", *after)
        assert {row["broker"] for row in settings} == {name}
        queues = two.report(*before, "group", "lag", "asked", "orders", *after)["queues"]
        assert {row["broker"] for row in queues} == {name}
    assert "No such option" in two.refused("-b", "broker-b", "topic", "list", code=64)


def test_the_cure_for_a_topic_on_some_brokers_makes_it_alike(two: Standing) -> None:
    settings = ("--queues", "2", "--read-queues", "3", "--perm", "r", "--type", "FIFO")
    two.shown("topic", "create", "uneven", "-b", "broker-a", *settings)
    (cure,) = [one["command"] for one in two.rows("doctor", "--topic", "uneven") if "1 of 2" in one["text"]]
    words = shlex.split(cure.removeprefix("pyromq "))
    assert "dry run: nothing was changed" in two.shown(*words)
    two.shown(*words[:-1])
    here, there = two.report("topic", "describe", "uneven")["brokers"]
    assert here | {"broker": "broker-b", "address": there["address"]} == there


def test_doctor_without_a_name_server() -> None:
    done = CliRunner().invoke(cli, ["doctor", "-n", "127.0.0.1:1", "--timeout", "1"])
    assert done.exit_code == 2
    assert "FAIL  name server: 127.0.0.1:1 does not answer" in done.stdout
    assert "brokerIP1" not in done.stdout
    assert "Start all by: pyromq up" in done.stdout


def test_a_brokers_clock_is_its_start_and_its_runtime() -> None:
    told = {"bootTimestamp": "1000", "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"}
    assert broker_now_ms(told) == 1000 + 1000 * (4 + 60 * (3 + 60 * (2 + 24)))
    assert broker_now_ms({}) is None


def test_top_draws_until_it_is_told_to_stop(two: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyromq.cli.cluster import top
    from pyromq.cli.cluster.top_screen import Frame

    looks, look = 0, top.take_frame

    async def looked(shell: Shell) -> Frame:
        nonlocal looks
        looks += 1
        if looks == 3:
            os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C while it looks
        return await look(shell)

    monkeypatch.setattr(top, "take_frame", looked)
    shown = two.shown("top", "--every", "0.1", "--rows", "2")
    assert shown.count("2 brokers, ") == looks == 3


def test_keys_of_the_environment_sign_requests(two: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[str] = []
    sign = Signer.sign

    def recorded(signer: Signer, request: Command) -> None:
        sign(signer, request)
        signed.append(request.fields["AccessKey"])

    monkeypatch.setattr(Signer, "sign", recorded)
    assert two.rows("cluster", "list")
    assert signed == []
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", "someone")
    assert "belong together" in two.refused("cluster", "list", code=78)
    monkeypatch.setenv("PYROMQ_SECRET_KEY", "secret")
    assert two.rows("cluster", "list")
    assert set(signed) == {"someone"}
