"""A dry run says yes only to what the run can do: each of these ends with the same words and code either way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("dry"), auto_create_topic_enable=False) as found:
        found.shown("topic", "create", "orders", "--queues", "2")
        found.shown("topic", "create", "closed", "--perm", "r")
        found.shown("group", "create", "billing")
        found.send("orders", "a", "b")
        yield found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("broker config set brokerName other", "brokerName of broker-a cannot be changed while running"),
        ("broker config set fileReservedTime soon", "fileReservedTime"),
        ("broker config set fileReservedTime -5", "fileReservedTime"),
        ("broker config set deleteWhen 99", "deleteWhen = 99: '99' is no hour of the day; write 00 to 23"),
        ("broker config set traceOn yes", "must be true or false"),
        ("broker config set sendMessageThreadPoolNums 8", "it has no effect: "),
        ("broker config set maxTopicLength 8", "it has no effect yet: "),
        ("broker config set tls.server.keyPassword x", "set it in the broker's file"),
        ("broker drain 127.0.0.1:10911", "name servers know brokers by name"),
        ("topic create new --attr +colour=red", "unsupported key: colour"),
        ("topic create new --type MIXED", "takes no type MIXED"),
        ("topic create new --queues 70000", "at most 65536 queues"),
        ("topic update orders --attr +cleanup.policy=COMPACTION", "cannot be changed after creation"),
        ("topic update orders --attr -reserve.time", "is not set, so it cannot be deleted"),
        ("topic perm BenchmarkTest r", "is broker-a's own"),
        ("topic delete BenchmarkTest", "is broker-a's own"),
        ("topic forward orders b@d --queues 4", "b@d"),
        ("topic forward orders closed", "closed"),
        ("group reset billing orders -b broker-a --queue 7 --offset 0", "no broker of these has queue 7 of orders"),
        ("group reset billing orders -b broker-a --queue 0 --offset 99", "offset 99: queue 0 of orders"),
        ("group skip billing orders --queue 7", "no broker of these has queue 7 of orders"),
        ("msg replay orders --into closed", "closed"),
        ("group delete CID_RMQ_SYS_TRANS", "group CID_RMQ_SYS_TRANS is the system's own and stays as it is"),
        ("group create big --retries 99999999999", "group big: the body is no SubscriptionGroupConfig"),
        ("group update TOOLS_CONSUMER --no-consume", "group TOOLS_CONSUMER is the system's own"),
    ],
)
def test_no_yes_to_what_then_fails(stands: Standing, words: str, said: str) -> None:
    dry, wet = stands.run(*words.split(), "--dry-run"), stands.run(*words.split(), "--yes")
    assert (dry.exit_code, dry.stderr) == (wet.exit_code, wet.stderr)
    assert dry.exit_code in (1, 2, 64, 78)
    assert said in dry.stderr


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("[topics.ordered]\nwriteQueues = 3\nreadQueues = 3", "of the order topic ordered not consumed"),
        ("[topics.orders]\nwriteQueues = 70000\nreadQueues = 70000", "at most 65536 queues"),
        ("[topics.BenchmarkTest]\npermission = 'r'", "is broker-a's own"),
        ("[groups.TOOLS_CONSUMER]\nconsumes = false", "group TOOLS_CONSUMER is the system's own"),
        ("[groups.billing]\nretries = -2", "group billing: retries are -1 or more (not -2)"),
        ("[groups.billing]\nretryQueues = 70000", "retryQueues from 0 to 65536 (not 70000)"),
    ],
)
def test_no_yes_to_a_file_that_is_then_refused(stands: Standing, document: str, said: str, tmp_path: Path) -> None:
    if "ordered" not in {row["topic"] for row in stands.rows("topic", "list")}:
        stands.shown("topic", "create", "ordered", "--queues", "2", "--order")
        stands.send("ordered", "a", order_key="k")
    (file := tmp_path / "all.toml").write_text(document)
    test_no_yes_to_what_then_fails(stands, f"apply {file}", said)


def test_copies_to_a_topic_that_nobody_makes(stands: Standing, tmp_path: Path) -> None:
    (row,) = stands.rows("msg", "query", "orders", "--from", "2020-01-01", "--most", "1")
    for goal in ("nowhere", "closed"):
        for mode in ("--dry-run", "--yes"):
            done = stands.run("msg", "resend", "orders", row["messageId"], "--to", goal, mode)
            assert (done.exit_code in (1, 2), goal in done.stderr) == (True, True), (mode, done.output)
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"topic": "nowhere", "body": "x"}\n')
    done = stands.run("msg", "import", str(lines), "--dry-run")
    assert (done.exit_code, "nowhere" in done.stderr) == (1, True), done.output


def test_every_name_server_is_asked_before_the_first_is_changed(stands: Standing) -> None:
    order = "topic create ordered-2 --order"
    for words in ("kv set N key value", "broker drain broker-a", "topic delete orders", "group delete billing", order):
        for mode in ("--dry-run", "--yes"):
            done = stands.run(*words.split(), "-n", f"{stands.names};127.0.0.1:1", mode, "--timeout", "1")
            assert (done.exit_code, "127.0.0.1:1" in done.stderr) == (2, True), (words, mode, done.output)
    assert stands.refused("kv", "get", "N", "key")
    assert stands.shown("topic", "describe", "orders")
