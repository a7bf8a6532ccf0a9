"""A dry run of a pipeline ends with the words and the exit code of the run where that would fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from pyromq.ambient import SystemClock, pause
from pyromq.cli.main import cli
from pyromq.cli.pipeline import job
from pyromq.pipelines.archive import archive
from pyromq.pipelines.replay import replay
from pyromq.pipelines.run import checkpoint, sending
from tests.pipelines.faults import Killed, after, instead
from tests.spark.reading import rows
from tests.spark.servers import Servers
from tests.spark.test_pulling import delete_topic, make_topic


@pytest.fixture
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the session of the tests: each would start a JVM of its own."""

    @contextmanager
    def session(*given: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(job, "spark_for", session)


def run(servers: Servers, words: str, *more: str) -> Result:
    name, *rest = words.split(" ")
    return CliRunner().invoke(cli, ["pipeline", name, "-n", servers.namesrv, "--progress", "off", *rest, *more])


# What follows `pipeline`; TOPIC is there, FOLDER is empty, FILE is a file, ELSEWHERE is the checkpoint of another run.
REFUSED = {
    "archive FILE/x --topic TOPIC": "is no folder; name another one",
    "archive FOLDER/x --topic nowhere": "nowhere",
    "archive ELSEWHERE --topic TOPIC": "began with",
    "replay --topic TOPIC --to b@d": "b@d",
    "replay --topic TOPIC --to closed": "'closed' has no queue that can be written",
    "replay --topic TOPIC --to TOPIC --where nonsense": "nonsense",
    "replay --topic TOPIC --to TOPIC --checkpoint FILE/x": "is no folder; name another one",
    "replay --topic TOPIC --to TOPIC --checkpoint ELSEWHERE": "began with",
    "replay --archive FOLDER/none --to TOPIC": "holds no archive",
    "replay --topic TOPIC --to TOPIC --every soon": "every = 'soon'",
    "dedup FOLDER/y --topic TOPIC --by nonsense": "nonsense",
    "dedup FOLDER/y --topic TOPIC --within soon": "within = 'soon'",
    "dedup FILE/y --topic TOPIC": "is no folder; name another one",
    "dedup FOLDER/y --topic TOPIC --to closed": "'closed' has no queue that can be written",
    "cdc-redis FILE/y --topic TOPIC --redis unix://FOLDER/none": "is no folder; name another one",
    "cdc-redis FOLDER/y --topic TOPIC --redis unix://FOLDER/none": "FOLDER/none cannot be used",
    "search --topic TOPIC --where nonsense=1": "nonsense",
    "search --topic TOPIC --body-pattern (": "(",
    "search --archive FOLDER/none --key k": "holds no archive",
    "search --store FOLDER/none --key k": "FOLDER/none",
    "analytics --topic TOPIC --where nonsense": "nonsense",
    "analytics --topic TOPIC --window soon": "window = 'soon'",
    "analytics --topic TOPIC --checkpoint FOLDER/z --where nonsense": "nonsense",
    "replay --topic TOPIC --to TOPIC --checkpoint FOLDER/r --where nonsense": "nonsense",
    "analytics --topic TOPIC --checkpoint FILE/z": "is no folder; name another one",
    "reconcile --topic TOPIC --with-topic TOPIC --by nonsense": "nonsense",
    "reconcile --topic TOPIC --with-archive FOLDER/none": "holds no archive",
    "backlog --archive FOLDER/none": "holds no archive",
    "backlog --topic TOPIC --report FOLDER/none/page.html": "there is no folder",
    "backlog --topic TOPIC --metrics FOLDER": "is a folder; name a file",
    "trace --trace-topic TOPIC --topic nowhere": "nowhere",
    "dlq --group nobody": "%DLQ%nobody",
}


# Of those above, what only Spark can judge: expressions, and the settings of a checkpoint.
SPARKS_OWN = ("nonsense", "began with", "(")
# What needs no Spark to be refused, besides those above.
EARLY = {
    "backlog --topic-pattern (": "topicPattern = '('",
    "backlog --topic TOPIC -o nonsense=1": "nonsense = '1': there is no such option",
    "backlog --topic TOPIC -o maxOffsetsPerTrigger=5": "this option is for streams",
    "backlog --topic TOPIC -n nowhere": "nameServer = 'nowhere': allowed is host:port",
    "backlog --topic-pattern x -n nowhere": "nameServer = 'nowhere': allowed is host:port",
    "backlog --archive FOLDER/none -o tags=a": "an archive takes topic and topicPattern alone",
    "search --archive FOLDER --key k": "holds no archive",
    "search --topic TOPIC --key k --since today --until yesterday": "the end is not after the beginning",
    "archive FOLDER/x --topic TOPIC --catalog c": "they are of Iceberg",
    "archive FOLDER/x --dead-letters --topic-pattern none -o tgas=a": "did you mean tags?",
    "archive FOLDER/x --topic TOPIC -o endingOffsets=latest": "this option is for batch reads",
    "analytics --topic TOPIC --checkpoint FOLDER/z --late soon": "late = 'soon'",
    "replay --archive FOLDER --to TOPIC --every 1s": "an archive has an end",
    "cdc-lake FOLDER/x --topic TOPIC": "write one of --delta",
    "cdc-lake FOLDER/x --topic TOPIC --delta FOLDER/a --catalog b": "write one of --delta",
    "cdc-lake FOLDER/x --topic TOPIC --catalog b --dry-run": "catalog b: the catalog cannot be used",
    "cdc-lake FOLDER/x --topic TOPIC --iceberg s3a://b/c": "needs a catalog",
    "trace --trace-topic TOPIC --since soon": "since = 'soon'",
}


@pytest.fixture
def names(servers: Servers, topic: str, tmp_path: Path) -> dict[str, Path | str]:
    servers.send(topic, 4)
    CliRunner().invoke(cli, ["topic", "create", "closed", "--perm", "r", "-n", servers.namesrv])
    file, elsewhere, folder = tmp_path / "file", tmp_path / "elsewhere", tmp_path / "folder"
    file.touch()
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "run.json").write_text('{"run": "x", "told": {"another": "job"}, "fixed": {}}')
    return {"TOPIC": topic, "FOLDER": folder, "FILE": file, "ELSEWHERE": elsewhere}


def named(text: str, names: dict[str, Path | str]) -> str:
    for name, value in names.items():
        text = text.replace(name, str(value))
    return text


def test_what_needs_no_spark_is_refused_before_it_starts(
    servers: Servers, names: dict[str, Path | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: Any, **named: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(job, "new_session", never)
    cases = EARLY | {words: said for words, said in REFUSED.items() if not said.startswith(SPARKS_OWN)}
    done = {words: run(servers, named(words, names)) for words in cases}
    wrong = {
        words: (each.exit_code, each.stderr, each.exception)
        for words, each in done.items()
        if not each.exit_code
        or named(cases[words], names) not in each.stderr
        or "Spark was started" in str(each.exception)
    }
    assert wrong == {}


@pytest.mark.usefixtures("one_session")
def test_no_yes_to_what_then_fails(servers: Servers, names: dict[str, Path | str]) -> None:
    wrong = {}
    for words, said in REFUSED.items():
        words, said = named(words, names), named(said, names)
        dry, wet = run(servers, words, "--dry-run"), run(servers, words)
        told = [each.stderr.splitlines()[-1] if each.stderr else repr(each.exception) for each in (dry, wet)]
        if (dry.exit_code, told[0]) != (wet.exit_code, told[1]) or not dry.exit_code or said not in told[0]:
            wrong[words] = [(dry.exit_code, told[0]), (wet.exit_code, told[1])]
    assert wrong == {}
    assert not any(Path(names["FOLDER"]).iterdir()), "a run that was refused has written something"


@pytest.mark.usefixtures("one_session")
def test_what_is_well_is_planned(servers: Servers, topic: str, tmp_path: Path) -> None:
    servers.send(topic, 4)
    for words in (
        f"archive {tmp_path}/kept --topic {topic}",
        f"replay --topic {topic} --to {topic} --checkpoint {tmp_path}/run",
        f"replay --topic {topic} --to made-later --queues 2",
        f"dedup {tmp_path}/once --topic {topic}",
        f"search --topic {topic} --body-pattern m.*",
        f"analytics --topic {topic} --checkpoint {tmp_path}/windows",
        f"reconcile --topic {topic} --with-topic {topic}",
        f"backlog --topic {topic} -o endingOffsets=latest",
        f"replay --topic {topic} --to {topic} -o minOffsetsPerTrigger=1",
    ):
        done = run(servers, words, "--dry-run")
        assert (done.exit_code, "(dry run)" in done.stdout) == (0, True), (words, done.output, done.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_replay_is_counted_from_where_its_checkpoint_stands(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    """A batch that is planned and not committed is still to be done; later starts keep the times of the first."""
    servers.send(topic, 60)
    source = {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": "40"}
    target = {"nameServer": servers.namesrv, "topic": f"{topic}-copy"}
    now_ms, folder = SystemClock().now_ms(), str(tmp_path)

    def counted() -> int:
        plan = replay(spark, source, target, folder, since_ms=now_ms + 60_000, dry_run=True)  # not the first start's
        assert plan.facts["messages"] == sum(row["to"] - row["from"] for row in plan.tables[1].rows)
        found: int = plan.facts["messages"]
        return found

    with instead(sending, "send"), pytest.raises(Exception, match=Killed):
        replay(spark, source, target, folder, since_ms=0)
    assert counted() == 60
    replay(spark, source, target, folder, since_ms=0)
    assert counted() == 0
    servers.send(topic, 7, first=60)
    assert counted() == 7
    with after(sending, "send"), pytest.raises(Exception, match=Killed):
        replay(spark, source, target, folder)
    assert counted() == 7
    assert replay(spark, source, target, folder).facts["messages"] == 0  # they were found in the target


def test_a_replay_half_done_is_counted_from_there(
    spark: SparkSession, servers: Servers, topic: str, tmp_path: Path
) -> None:
    servers.send(topic, 60)
    kept, folder = str(tmp_path / "kept"), str(tmp_path / "run")
    read = {"nameServer": servers.namesrv, "topic": topic, "maxOffsetsPerTrigger": "40"}
    target = {"nameServer": servers.namesrv, "topic": f"{topic}-copy"}
    archive(spark, read, kept)
    with after(checkpoint, "mark_done"), pytest.raises(Exception, match=Killed):
        replay(spark, {"archive": kept}, target, folder)
    sent = len(rows(servers, f"{topic}-copy"))
    plan = replay(spark, {"archive": kept}, target, folder, dry_run=True)
    assert plan.facts["messages"] == 60 - sent < 60
    replay(spark, {"archive": kept}, target, folder)
    assert replay(spark, {"archive": kept}, target, folder, dry_run=True).facts["messages"] == 0


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize(("count", "told"), [(4, "were there before"), (30, "were stored after the stream had passed")])
def test_a_topic_made_anew_ends_the_dry_run_as_the_run(
    servers: Servers, topic: str, tmp_path: Path, count: int, told: str
) -> None:
    """Whether it has fewer messages than the archive has, or more."""
    words = f"archive {tmp_path}/kept --topic {topic}"
    make_topic(servers, "broker-a", topic, queues=1)
    servers.send(topic, 20)
    assert run(servers, words).exit_code == 0
    later_ms = SystemClock().now_ms() + 1_100  # a broker's clock may be set back by less
    while SystemClock().now_ms() < later_ms:
        pause(0.05)
    delete_topic(servers, "broker-a", topic)
    make_topic(servers, "broker-a", topic, queues=1)
    servers.send(topic, count)
    dry, wet = run(servers, words, "--dry-run"), run(servers, words)
    assert (dry.exit_code, dry.stderr.splitlines()[-1]) == (wet.exit_code, wet.stderr.splitlines()[-1])
    assert dry.exit_code
    assert told in dry.stderr
    assert "Give -o failOnDataLoss=false to go on: a queue that was made anew is read from its first" in dry.stderr
    lax = ("-o", "failOnDataLoss=false", "--json")
    dry, wet = run(servers, words, *lax, "--dry-run"), run(servers, words, *lax)
    assert json.loads(dry.stdout)["messages"] == count
    assert json.loads(wet.stdout)["messages"] == 20 + count
