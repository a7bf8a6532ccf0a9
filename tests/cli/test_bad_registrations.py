"""A broker that is registered under what is no address: it is named and left out, everything else is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.standing import Standing, standing
from tests.namesrv.builders import registration, topics

BAD = ["", "nonsense", "a:b", "host\x1b[2J:1", "x\0y:1", "\xe9" * 80 + ".com:1", "a" * 5000 + ":1", "127.0.0.1:1"]


def spoil(stands: Standing, *addresses: str) -> None:
    """Registered past our own name server's checks, as another one may take them."""

    async def register() -> None:
        for server in stands.world.name_servers.values():
            for number, address in enumerate(addresses):
                bad = registration(f"bad-{number}", address=address, topics=topics("orders", "b"), timeout_ms=1 << 60)
                server.table.register(bad, 0)

    stands.do(register())


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("bad"), "broker-a") as found:
        found.do(found.world.create_topic("orders", 2))
        spoil(found, *BAD)
        yield found


def rows(stands: Standing, *words: str) -> list[dict[str, object]]:
    done = stands.run(*words, "--json")
    assert done.exit_code == 1, (done.output, done.exception)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_topics_of_the_others_are_listed_and_each_bad_one_is_named(stands: Standing) -> None:
    done = stands.run("topic", "list")
    assert done.exit_code == 1, done.exception
    assert "orders" in done.stdout
    for number in range(len(BAD)):
        assert f"broker bad-{number} is left out" in done.stderr
    assert [row["brokers"] for row in rows(stands, "topic", "list", "orders")] == [["broker-a"]]


def test_clusters_and_groups_are_listed(stands: Standing) -> None:
    (row,) = rows(stands, "cluster", "list")
    assert (row["masters"], row["away"]) == (len(BAD) + 1, len(BAD))
    answers = {row["broker"]: row["answers"] for row in rows(stands, "cluster", "brokers")}
    assert [name for name, is_there in answers.items() if is_there] == ["broker-a"]
    rows(stands, "group", "list")


def test_the_doctor_names_the_bad_ones_and_goes_on(stands: Standing) -> None:
    found = rows(stands, "doctor")
    bad = [one for one in found if one["check"] == "advertised address" and one["state"] == "broken"]
    assert len(bad) == len(BAD)
    assert any(one["check"] == "groups" for one in found)


def test_an_export_has_what_the_others_have(stands: Standing, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    done = stands.run("export", str(file))
    assert done.exit_code == 1
    assert "broker bad-1 is left out" in done.stderr
    assert list(json.loads(file.read_text())["topics"]) == ["orders"]


def test_a_quota_is_set_on_the_others_and_who_did_not_get_it_is_said(stands: Standing) -> None:
    done = stands.run("quota", "set", "topic:orders", "sendMessages=7", "--yes")
    said = " ".join(done.stderr.split())
    assert (done.exit_code, "bad-1, " in said, "did not get the quota of topic:orders" in said) == (1, True, True), said
    assert "broker-a" in done.stdout
    assert "bad-1" not in done.stdout
    assert "sendMessages=7" in stands.shown("quota", "list", "-b", "broker-a")


def test_a_cluster_with_bad_ones_alone_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with standing(tmp_path) as found:
        spoil(found, "nonsense")
        found.do(found.world.stop_broker())
        assert "'nonsense' is no address" in found.refused("topic", "list", code=2)
