"""What our servers do not serve yet is refused by the name of the capability that it waits for, never with exit code 0.

A capability that has come drops `waits_for` from its commands, and docs/mqadmin.md says so.
"""

from __future__ import annotations

import re

import pytest

from pyromq.mqadmin import catalogue

from .conftest import Shown, Stage

WAITING = {
    "setConsumeMode": "-c DefaultCluster -t GoldenPop -g GID_pop -m POP",
    "resetMasterFlushOffset": "-b BROKER -o 1000",
    "addBroker": "-c BROKER -b /conf/b.conf",
    "removeBroker": "-c BROKER -b DefaultCluster:broker-a:1",
    "getBrokerEpoch": "-b broker-a",
    "createUser": "-b BROKER -u u -p p",
    "updateUser": "-b BROKER -u u -p p",
    "deleteUser": "-b BROKER -u u",
    "getUser": "-b BROKER -u u",
    "listUser": "-b BROKER",
    "copyUser": "-f BROKER -t BROKER",
    "createAcl": "-b BROKER -s User:u -r Topic:T -a Pub -d Allow",
    "updateAcl": "-b BROKER -s User:u -r Topic:T -a Pub -d Allow",
    "deleteAcl": "-b BROKER -s User:u",
    "getAcl": "-b BROKER -s User:u",
    "listAcl": "-b BROKER",
    "copyAcl": "-f BROKER -t BROKER",
    "exportMetadataInRocksDB": "-p /tmp -t topics",
    "rocksDBConfigToJson": "-p /tmp -t topics",
    "getBrokerLiteInfo": "-b BROKER",
    "getParentTopicInfo": "-p GoldenPlain",
    "getLiteTopicInfo": "-p GoldenPlain -l l",
    "getLiteClientInfo": "-p GoldenPlain -g g -c c",
    "getLiteGroupInfo": "-p GoldenPlain -g g",
    "triggerLiteDispatch": "-p GoldenPlain -g g",
    "updateStaticTopic": "-t T -qn 4 -c DefaultCluster",
    "remappingStaticTopic": "-t GoldenPlain -c DefaultCluster",
}


STILL_WAITING = [name for name in WAITING if catalogue.find(name).waits_for]


def test_these_are_all_that_wait() -> None:
    waiting = {name for name in catalogue.COMMANDS if catalogue.find(name).waits_for}
    assert waiting - WAITING.keys() == {"checkRocksdbCqWriteProgress"}  # answered: nothing to compare; see below


@pytest.mark.parametrize("name", STILL_WAITING)
def test_a_refusal_names_the_capability(recorded: Stage, name: str) -> None:
    shown = recorded.call(name, *WAITING[name].replace("BROKER", recorded.broker).split())
    if is_served(shown):
        return  # it has just come: its `waits_for` can go
    assert shown.code in (1, 2), shown.out
    assert shown.err.startswith(f"mqadmin: {name} failed\nCaused by: ")
    assert "waits for" in shown.err


def is_served(shown: Shown) -> bool:
    """Done, or refused for a reason other than that nobody knows how."""
    refused_otherwise = re.search(r"CODE: (?!3 )\d+ ", shown.err) and "controllerMode" not in shown.err
    return shown.code == 0 or bool(refused_otherwise)


def test_there_is_nothing_in_rocksdb_to_compare(recorded: Stage) -> None:
    shown = recorded.call("checkRocksdbCqWriteProgress", "-c", "DefaultCluster")
    assert shown.code == 1
    assert "broker-a check error" in shown.err


def test_timers_in_rocksdb_are_refused_by_the_broker(recorded: Stage) -> None:
    assert recorded.call("switchTimerEngine", "-b", recorded.broker, "-e", "F").code == 0
    shown = recorded.call("switchTimerEngine", "-b", recorded.broker, "-e", "R")
    assert shown.code == 1
    assert "CODE: 29" in shown.err
