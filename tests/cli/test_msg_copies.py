"""`pyromq msg` query, resend, export and import with two brokers."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.admin.copies import Copies
from pyromq.ambient import pause
from pyromq.cli.msg.message_rows import imported
from pyromq.client.errors import Error, NoBroker, TimedOut
from pyromq.client.produce.outgoing import MAX_MESSAGE_BYTES, Outgoing
from pyromq.model.message import Property
from tests.cli.standing import Standing, standing


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("msg"), "broker-a", "broker-b") as stands:
        stands.do(stands.world.create_topic("orders", 2))
        stands.send("orders", "one", tag="a", keys=["k1"], props={"region": "eu"})
        stands.send("orders", "two", tag="b", keys=["k1", "k2"])
        stands.send("orders", "three", tag="b", order_key="o")
        yield stands


def first_id(two: Standing) -> str:
    (row,) = [row for row in two.rows("msg", "query", "orders") if row["body"] == "one"]
    return str(row["messageId"])


def said_by_command(stderr: str) -> str:
    """Its own line: brokers of the same process may log beside it."""
    (line,) = [each for each in stderr.splitlines() if each.startswith("pyromq: ")]
    return line


def test_an_import_that_is_interrupted_names_its_rest(
    two: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "three.jsonl"
    file.write_text("".join(f'{{"topic": "stopped", "body": "{number}"}}\n\n' for number in range(3)))
    send_packed, sent = Copies.send_packed, list[bytes]()

    async def interrupted(copies: Copies, message: Outgoing, order_key: str | None) -> None:
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append(message.body)
        await send_packed(copies, message, order_key)

    with monkeypatch.context() as patched:
        patched.setattr(Copies, "send_packed", interrupted)
        said = " ".join(two.refused("msg", "import", str(file), "--to", "stopped", "--yes").split())
    again = "The rest, whose first may be there already, with the same -n or --profile"
    assert f"2 messages were sent. {again}: tail -n +4 {file} | pyromq" in said
    rest = "".join(file.read_text().splitlines(keepends=True)[3:])
    two.shown("msg", "import", "-", "--to", "stopped", "--yes", text=rest)
    assert sorted(row["body"] for row in two.rows("msg", "query", "stopped")) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("fault", "doubt"),
    [
        (TimedOut("no answer. Is it well?", may_be_stored=True), ", and it may be there already"),
        (NoBroker("nobody is there"), ""),
    ],
)
def test_an_import_whose_send_fails_names_its_rest(
    two: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Error, doubt: str
) -> None:
    file = tmp_path / "failing.jsonl"
    file.write_text('{"topic": "failing", "body": "x"}\n' * 3)
    send_packed, sent = Copies.send_packed, list[bytes]()

    async def fails(copies: Copies, message: Outgoing, order_key: str | None) -> None:
        if len(sent) == 2:
            raise fault
        sent.append(message.body)
        await send_packed(copies, message, order_key)

    monkeypatch.setattr(Copies, "send_packed", fails)
    said = said_by_command(two.refused("msg", "import", str(file), code=2))
    whole = str(fault) if str(fault).endswith("?") else f"{fault}."
    rest = f"From that line on, with the same -n or --profile: tail -n +3 {file} | pyromq msg import -"
    assert said == f"pyromq: line 3 of {file}: {whole} 2 messages before it were sent{doubt}. {rest}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"body": ""}, "the message for 'checked' has an empty body. Brokers refuse it: send at least a byte"),
        (
            {"body": "x" * (MAX_MESSAGE_BYTES + 1)},
            f"has {MAX_MESSAGE_BYTES + 1} bytes, at most {MAX_MESSAGE_BYTES} are",
        ),
        ({"body": "x", "properties": {"a": "b\x01c"}}, "property 'a' holds 0x01 or 0x02"),
        ({"body": "x", "properties": {"TRAN_MSG": "true"}}, "property 'TRAN_MSG' is RocketMQ's own. Leave it out"),
        ({"body": "x", "properties": {"DELAY": "3"}}, "property 'DELAY' is RocketMQ's own"),
        ({"body": "x", "properties": {"TIMER_DELIVER_MS": "1"}}, "property 'TIMER_DELIVER_MS' is RocketMQ's own"),
        ({"body": "x", "topic": "a b"}, "a b"),
        ({"body": "x", "topic": "SCHEDULE_TOPIC_XXXX"}, "nobody may send to it"),
    ],
)
def test_a_line_that_cannot_be_sent_ends_an_import_and_its_dry_run_alike(
    two: Standing, tmp_path: Path, line: dict[str, Any], said: str
) -> None:
    file = tmp_path / "five.jsonl"
    good = '{"topic": "checked", "body": "x"}\n'
    file.write_text(f"{good}\n{good}{json.dumps({'topic': 'checked'} | line)}\n{good}")
    dry = said_by_command(two.refused("msg", "import", str(file), "--dry-run", code=78))
    assert dry.startswith(f"pyromq: line 4 of {file}: ")
    assert said in dry
    real = said_by_command(two.refused("msg", "import", str(file), code=78))
    rest = f"From that line on, with the same -n or --profile: tail -n +4 {file} | pyromq msg import -"
    assert real == f"{dry} 2 messages before it were sent. {rest}"


def test_an_imported_message_keeps_its_priority(two: Standing) -> None:
    line = {"topic": "urgent", "body": "x", "properties": {Property.PRIORITY: "3", "region": "eu"}}
    two.shown("msg", "import", "-", text=json.dumps(line))
    (row,) = two.rows("msg", "export", "urgent")
    assert row["properties"] == line["properties"]


def test_query_by_key_by_tag_and_by_time(two: Standing) -> None:
    assert [row["body"] for row in two.rows("msg", "query", "orders", "--key", "k1")] == ["one", "two"]
    assert [row["body"] for row in two.rows("msg", "query", "orders", "--tag", "b")] == ["two", "three"]
    everything = two.rows("msg", "query", "orders", "--from", "2020-01-01", "--most", "2")
    assert len(everything) == 2
    times = [row["storedMs"] for row in two.rows("msg", "query", "orders")]
    assert times == sorted(times)
    assert {row["body"] for row in two.rows("msg", "query", "orders", "--to", str(times[-1] + 1))} == {
        "one",
        "two",
        "three",
    }
    table = two.shown("msg", "query", "orders", "--key", "k2").splitlines()
    assert table[0].split()[:3] == ["message", "id", "topic"]
    assert table[1].endswith("k1 k2  two")
    assert "no message of orders fits" in two.refused("msg", "query", "orders", "--key", "k3")
    assert "no message of orders fits" in two.refused("msg", "query", "orders", "--from", "2100-01-01")
    assert "give it without --tag" in two.refused("msg", "query", "orders", "--key", "k", "--tag", "a", code=64)
    assert "Closest: 'orders'" in two.refused("msg", "query", "order")


def test_resend_to_a_topic_and_to_a_group(two: Standing) -> None:
    message = first_id(two)
    dry = two.shown("msg", "resend", "orders", message, "--to", "copies", "--dry-run")
    assert f"would send {message} again to topic copies" in dry
    (sent,) = two.rows("msg", "resend", "orders", message, "--to", "copies")
    assert (sent["copyOf"], sent["to"]) == (message, "topic copies")
    (copy,) = two.rows("msg", "query", "copies")
    assert (copy["messageId"], copy["body"], copy["tags"], copy["keys"]) == (sent["messageId"], "one", "a", "k1")
    assert (copy["properties"]["region"], copy["properties"]["COPY_OF"]) == ("eu", message)

    two.shown("group", "create", "billing")
    (again,) = two.rows("msg", "resend", "orders", message, "-g", "billing")
    assert (again["messageId"], again["to"]) == (message, "group billing")
    (retry,) = two.rows("msg", "query", "%RETRY%billing")
    assert retry["properties"][Property.RETRY_TOPIC] == "orders"
    assert "no message nothing of topic orders" in two.refused("msg", "resend", "orders", "nothing")
    assert "give one of them" in two.refused("msg", "resend", "orders", message, "--to", "x", "-g", "billing", code=64)


def test_export_and_import_give_the_same_messages(two: Standing, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    (told,) = two.rows("msg", "export", "orders", str(file))
    assert told == {"topic": "orders", "file": str(file), "messages": 3}
    dry = two.shown("msg", "import", str(file), "--to", "again", "--dry-run")
    assert "would send 3 messages" in dry
    assert two.rows("msg", "import", str(file), "--to", "again") == [{"topic": "again", "messages": 3}]
    kept = ("body", "tags", "keys", "orderKey", "properties")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    back = two.rows("msg", "export", "again")
    assert sorted(str([one[name] for name in kept]) for one in lines) == sorted(
        str([one[name] for name in kept]) for one in back
    )
    piped = two.shown("msg", "export", "orders", "--tag", "b", "--most", "1")
    assert two.shown("msg", "import", "-", "--to", "piped", text=piped).split() == ["topic", "messages", "piped", "1"]


def test_export_as_columns(two: Standing, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "orders.parquet"
    (told,) = two.rows("msg", "export", "orders", str(file))
    assert told == {"topic": "orders", "file": str(file), "messages": 3}
    lines = two.rows("msg", "export", "orders")
    assert sorted(parquet.read_table(file).column("body").to_pylist()) == sorted(one["body"].encode() for one in lines)
    assert "leave out --broker and --most" in two.refused("msg", "export", "orders", str(file), "--most", "1")
    assert "exists already" in two.refused("msg", "export", "orders", str(file), code=78)
    nowhere = tmp_path / "none" / "x.parquet"
    said = said_by_command(two.refused("msg", "export", "orders", str(nowhere), code=78))
    assert said == f"pyromq: {nowhere}: No such file or directory"
    said = two.refused("msg", "import", str(file), "--to", "again")
    assert f"line 1 of {file}: it is a file of columns. Import takes JSON lines only" in said


def test_ctrl_c_ends_an_export_as_columns_and_leaves_no_file(
    two: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = pytest.importorskip("pyromq.spark.codec.files")
    read = files.read_range
    batches = 0

    def without_end(*given: Any) -> Iterator[Any]:
        nonlocal batches
        first = next(read(*given))
        os.kill(os.getpid(), signal.SIGINT)
        while batches < 1000:  # a broken test ends all the same
            batches += 1
            yield first
            pause(0.02)

    monkeypatch.setattr(files, "read_range", without_end)
    told = two.refused("msg", "export", "orders", str(tmp_path / "orders.parquet"))
    assert re.search(r"stopped: export of orders was \d+ % done. \S+orders.parquet was not written", told)
    assert 0 < batches < 1000
    assert list(tmp_path.iterdir()) == []


def test_bodies_that_are_no_text_survive(two: Standing, tmp_path: Path) -> None:
    body = bytes(range(256))
    (tmp_path / "raw").write_bytes(body)
    two.shown("pub", "raw", f"@{tmp_path / 'raw'}")
    (line,) = two.rows("msg", "export", "raw")
    assert "body" not in line
    two.shown("msg", "import", "-", "--to", "raw2", text=json.dumps(line))
    (copy,) = two.rows("msg", "export", "raw2")
    assert imported(json.dumps(copy).encode(), None).body == body


def test_letters_that_end_lines_elsewhere_survive(two: Standing, tmp_path: Path) -> None:
    bodies = ["a\u2028b", "a\u2029b", "a\u0085b", "a\rb", "a\r\nb\n", "\x0b\x0c\x1c\x1d\x1e", "\ufeffa"]
    two.send("lines", *bodies, props={"note": "x\u2028y"})
    file = tmp_path / "lines.jsonl"
    two.shown("msg", "export", "lines", str(file))
    two.shown("msg", "import", str(file), "--to", "lines2")
    two.shown("msg", "export", "lines2", str(file))
    two.shown("msg", "import", "-", "--to", "lines3", text=file.read_text("utf-8"))
    two.shown("msg", "export", "lines3", str(file))
    back = [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
    assert sorted(one["body"] for one in back) == sorted(bodies)
    assert {one["properties"]["note"] for one in back} == {"x\u2028y"}


def test_lines_that_end_as_on_windows_and_bytes_that_are_no_text(two: Standing, tmp_path: Path) -> None:
    file = tmp_path / "windows.jsonl"
    file.write_bytes(b'{"topic": "w", "body": "x"}\r\n\r\n{"topic": "w", "body": "\xff"}\r\n')
    said = two.refused("msg", "import", str(file))
    assert f"line 3 of {file}: 'utf-8' codec can't decode" in said
    assert "1 messages before it were sent" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "it is no JSON object"),
        ("{", "line 1 of -: it is no JSON: Expecting property name enclosed in double quotes at character 2."),
        ('{"body": "x"}', "it names no topic: give --to"),
        ('{"topic": "t"}', "it has neither body nor bodyBase64"),
        ('{"topic": "t", "bodyBase64": "?"}', "bodyBase64"),
        ('{"topic": "t", "body": "x", "keys": 7}', "keys a list"),
    ],
)
def test_a_bad_line_is_named(two: Standing, line: str, said: str) -> None:
    assert said in two.refused("msg", "import", "-", text=line)


def test_what_was_sent_before_a_bad_line_is_told(two: Standing) -> None:
    good = '{"topic": "partly", "body": "x"}'
    assert "line 2 of -: it is no JSON object. 1 messages before it were sent." in two.refused(
        "msg", "import", "-", text=f"{good}\n7\n"
    )


def test_a_stretch_is_replayed(two: Standing) -> None:
    ids = two.send("replayed", "a", "b", tag="paid")
    two.send("replayed", "c", tag="open")
    two.shown("topic", "create", "replays", "--queues", "1")
    dry = two.shown("msg", "replay", "replayed", "--tag", "paid", "--into", "replays", "--dry-run")
    assert "would send 2 messages of replayed again to topic replays" in dry
    assert two.rows("msg", "export", "replays") == []
    assert "nothing was changed" in two.refused("msg", "replay", "replayed", "--into", "replays", text="n\n")
    into = ["msg", "replay", "replayed", "--tag", "paid", "--into", "replays"]
    assert two.rows(*into, "--yes") == [{"topic": "replayed", "to": "topic replays", "sent": 2}]
    copies = two.rows("msg", "export", "replays")
    assert sorted(one["body"] for one in copies) == ["a", "b"]
    assert {one["properties"]["COPY_OF"] for one in copies} == set(ids)
    two.shown("group", "create", "again")
    shown = two.shown("msg", "replay", "replayed", "--from", "2026-01-01T00:00:00", "-g", "again", "--yes")
    assert shown.split()[-4:] == ["replayed", "group", "again", "3"]
    retried = two.rows("msg", "export", "%RETRY%again")
    assert sorted(one["body"] for one in retried) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["orders"], 64, "say to whom: either -g GROUP or --into TOPIC"),
        (["orders", "-g", "g", "--into", "orders"], 64, "say to whom"),
        (["order", "-g", "g"], 1, "there is no topic 'order'. Closest: 'orders'"),
        (["orders", "-g", "nobody"], 1, "there is no group 'nobody'"),
        (["orders", "--into", "order"], 1, "there is no topic 'order'"),
        (["orders", "--tag", "none", "--into", "orders"], 1, "no message of orders fits"),
        (["orders", "--from", "someday", "--into", "orders"], 64, "neither milliseconds nor a time"),
    ],
)
def test_a_replay_that_cannot_be_is_refused(two: Standing, words: list[str], code: int, said: str) -> None:
    assert said in two.refused("msg", "replay", *words, "--yes", code=code)


def test_get_and_trace_by_way_of_the_name_server(two: Standing) -> None:
    message = first_id(two)
    assert {one["id"] for one in two.rows("msg", "get", "orders", message)} == {message}
    assert "no message nothing of topic orders is known here" in two.refused("msg", "get", "orders", "nothing")
    assert "there is no topic 'order'. Closest: 'orders'" in two.refused("msg", "get", "order", "nothing")
    assert "no trace of nothing in RMQ_SYS_TRACE_TOPIC" in two.refused("msg", "trace", "nothing")
