"""What `pyromq up` does without being told to: SQL92 filters, delays of a year, conflicting subscriptions refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

import pyromq
from pyromq.client.errors import Refused
from tests.interop import wire
from tests.interop.peers.process import Program

CREATE_TOPIC = 17
CHECK_CLIENT_CONFIG = 46
QUESTION = b'{"clientId":"c","group":"G","subscriptionData":{"topic":"T","subString":"%s","expressionType":"SQL92"}}'


@contextmanager
def up(tmp_path: Path, **variables: str) -> Iterator[Program]:
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(tmp_path / "data")]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    environment = {"HOME": str(tmp_path), **variables}
    with Program([*command, *ports], name="pyromq up", env=environment, cwd=tmp_path) as program:
        yield program


def address(program: Program, whose: str) -> str:
    return program.wait_for(whose + r" (127\.0\.0\.1:\d+)")[1]


def test_up_takes_sql_subscriptions_and_long_delays(tmp_path: Path) -> None:
    with up(tmp_path) as program:
        with wire.Client(address(program, "broker")) as client:
            assert client.call(CHECK_CLIENT_CONFIG, {}, QUESTION % b"a > 5").code == 0
            assert client.call(CHECK_CLIENT_CONFIG, {}, QUESTION % b"a >").code == 23
        with pyromq.sync.connect(address(program, "Name server")) as sdk, sdk.producer() as producer:
            assert producer.send("T", "next year", delay=timedelta(days=365)).recall_handle
            with pytest.raises(Refused, match=r"31622400000ms \(timerMaxDelaySec=31622400\)"):
                producer.send("T", "later", delay=timedelta(days=367))


def test_up_takes_long_delays_over_grpc_too(tmp_path: Path) -> None:
    with up(tmp_path) as program:
        endpoint = address(program, "endpoints")
        program.wait_for(r"topic create orders --type normal -n 127")
        fields = {"topic": "D", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        fields |= {"topicFilterType": "SINGLE_TAG", "order": "false", "attributes": "+message.type=DELAY"}
        with wire.Client(address(program, "broker")) as client:
            assert client.call(CREATE_TOPIC, fields).code == 0
        with pyromq.sync.connect(endpoints=endpoint) as sdk, sdk.producer() as producer:
            assert producer.send("D", "next year", delay=timedelta(days=365)).recall_handle


@contextmanager
def two_members(program: Program) -> Iterator[None]:
    """Of one group, in two clients, with different tags: the block runs if both have started."""
    names = address(program, "Name server")
    with pyromq.sync.connect(names) as one, pyromq.sync.connect(names) as two, one.producer() as producer:
        producer.send("T", "the topic is there")
        with (
            one.push_consumer("T", print, group="G", filter=pyromq.tag("a")),
            two.push_consumer("T", print, group="G", filter=pyromq.tag("b")),
        ):
            yield


def test_up_refuses_a_member_that_subscribes_otherwise_and_says_so_at_its_start(tmp_path: Path) -> None:
    with up(tmp_path) as program:
        program.wait_for("refuseConflictingSubscriptions")
        with pytest.raises(pyromq.SubscriptionConflict, match="T: b"), two_members(program):
            raise AssertionError("the second one must not start")


def test_who_wants_java_s_way_of_up_gets_it(tmp_path: Path) -> None:
    with up(tmp_path, PYROMQ_BROKER_REFUSE_CONFLICTING_SUBSCRIPTIONS="false") as program, two_members(program):
        program.wait_for("subscriptions of a group differ, messages are lost to it")


def test_what_an_operator_sets_while_up_runs_outlasts_its_defaults(tmp_path: Path) -> None:
    with up(tmp_path) as program:
        pyromq_broker = [sys.executable, "-m", "pyromq", "broker", "config", "set", "refuseConflictingSubscriptions"]
        words = [*pyromq_broker, "false", "--yes", "-n", address(program, "Name server")]
        subprocess.run(words, check=True, capture_output=True)
        program.process.terminate()
        program.wait_for("name server stopped")
    with up(tmp_path) as program, two_members(program):
        program.wait_for("subscriptions of a group differ, messages are lost to it")
        said = "\n".join(program.lines)
        assert "refuseConflictingSubscriptions" not in said, "it neither refuses nor was the default anybody's word"
