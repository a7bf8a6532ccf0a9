"""Copying commands and messages that cannot be read: they stay where they are, all others are copied, exit code 1.

Of two causes: bytes that are no zlib although the record says so, and a good message whose package is not installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.admin import cluster
from pyromq.admin.calls import Calls
from pyromq.protocol.compression import Compression, compress, compressed_flag
from pyromq.protocol.requests import RequestCode
from pyromq.text.extras import install_command
from tests.cli.standing import Standing, standing
from tests.cli.test_dlq import consume
from tests.mqadmin.conftest import call

NO_ZLIB = compressed_flag(Compression.ZLIB), b"no zlib"
INSTALL = install_command("compress")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("skipped")) as stands:
        yield stands


@pytest.fixture(params=["damaged", "package missing"])
def cause(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stored(cause: str) -> tuple[int, bytes]:
    """Flags and body of the message that cannot be read."""
    if cause == "damaged":
        return NO_ZLIB
    pytest.importorskip("zstandard")
    return compressed_flag(Compression.ZSTD), compress(b"good", Compression.ZSTD)


def hide(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on as if it was not installed."""
    monkeypatch.setitem(sys.modules, "zstandard", None)


async def put(stands: Standing, topic: str, flags: int, body: bytes) -> None:
    """One message as it is, with the id U1."""
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": str(flags), "g": "0", "h": "0", "j": "0"}
    async with stands.world.client() as client:
        (place,) = await cluster.masters(Calls(client.session))
        call = client.session.call
        await call(place.address, RequestCode.SEND_MESSAGE_V2, fields | {"i": "UNIQ_KEY\x01U1\x02"}, body)


def fill(stands: Standing, topic: str, cause: str) -> None:
    stands.do(stands.world.create_topic(topic, 1))
    stands.send(topic, "before")
    stands.do(put(stands, topic, *stored(cause)))
    stands.send(topic, "after")


def partly(stands: Standing, cause: str, *words: str) -> tuple[list[Any], str]:
    """What it printed for programs and for people, after it ended with exit code 1."""
    done = stands.run(*words, "--json")
    assert done.exit_code == 1, (done.output, done.exception)
    told = done.stderr
    named = next(line for line in told.splitlines() if line.startswith("pyromq: skipped: message U1 at offset "))
    assert "of queue 0 of " in named
    assert "(commit log position " in named
    assert (INSTALL if cause == "package missing" else "cannot be decompressed") in named
    assert "skipped 1 message that cannot be read, all others were copied" in told
    return [json.loads(line) for line in done.stdout.splitlines()], told


def bodies(stands: Standing, topic: str) -> list[str]:
    return sorted(row["body"] for row in stands.rows("msg", "query", topic))


def test_forward_leaves_it_out_and_copies_all_others(
    one: Standing, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = f"f-{cause[:3]}", f"f-{cause[:3]}-wide"
    fill(one, source, cause)
    with monkeypatch.context() as patch:
        hide(patch)
        (row,), told = partly(one, cause, "topic", "forward", source, target, "--queues", "1", "--yes")
    assert row == {"source": source, "target": target, "copied": 2, "goneOn": False, "skipped": 1}
    assert f"pyromq msg resend {source} ID --to {target}" in told
    assert bodies(one, target) == ["after", "before"]
    if cause == "package missing":  # it is whole still: what was told to do works
        one.shown("msg", "resend", source, "U1", "--to", target)
        assert bodies(one, target) == ["after", "before", "good"]
    assert len(one.rows("msg", "query", source)) == 3


def test_replay_and_msg_resend_leave_it_out(one: Standing, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, group = f"r-{cause[:3]}", f"r-{cause[:3]}-again", f"r-{cause[:3]}-group"
    fill(one, source, cause)
    one.do(one.world.create_topic(target, 1))
    one.shown("group", "create", group)
    hide(monkeypatch)
    (row,), _ = partly(one, cause, "msg", "replay", source, "--into", target, "--yes")
    assert row == {"topic": source, "to": f"topic {target}", "sent": 2, "skipped": 1}
    (row,), _ = partly(one, cause, "msg", "replay", source, "-g", group, "--yes")
    assert (row["sent"], row["skipped"]) == (2, 1)
    for way in (["--to", target], ["-g", group]):
        assert "not sent: message U1 at offset 1 of queue 0" in one.refused("msg", "resend", source, "U1", *way)
    assert bodies(one, target) == ["after", "before"]
    assert bodies(one, f"%RETRY%{group}") == ["after", "before"]


def test_export_leaves_it_out(one: Standing, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, file = f"e-{cause[:3]}", tmp_path / "lines.jsonl"
    fill(one, source, cause)
    hide(monkeypatch)
    (row,), _ = partly(one, cause, "msg", "export", source, str(file))
    assert row == {"topic": source, "file": str(file), "messages": 2, "skipped": 1}
    assert [json.loads(line)["body"] for line in file.read_text().splitlines()] == ["before", "after"]


def test_mqadmin_does_not_send_it_again(one: Standing, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"m-{cause[:3]}"
    fill(one, source, cause)
    hide(monkeypatch)
    shown = call("queryMsgById", "-n", one.names, "-t", source, "-i", "U1", "-s", "true")
    assert shown.code != 0
    assert "message U1 at offset 1 of queue 0" in shown.err
    assert len(one.rows("msg", "query", source)) == 3


def test_dead_letters_that_cannot_be_read_stay(one: Standing, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    group = topic = f"d-{cause[:3]}"
    fill(one, topic, cause)
    handled = 2 if cause == "damaged" else 3  # the damaged one never reaches a handler
    one.do(consume(one, group, handled, rejects=True, topic=topic))
    assert len(one.rows("dlq", "list", group)) == 3
    with monkeypatch.context() as patch:
        hide(patch)
        (row,), told = partly(one, cause, "dlq", "resend", group, "--yes")
    assert (row["sent"], row["skipped"]) == (2, 1)
    assert f"pyromq dlq resend {group} ID" in told
    assert "U1" in {each["messageId"] for each in one.rows("dlq", "list", group)}
    assert bodies(one, f"%RETRY%{group}") == ["after", "before"]
    if cause == "package missing":
        assert one.rows("dlq", "resend", group, "U1", "--yes")[0]["sent"] == 1
        assert bodies(one, f"%RETRY%{group}") == ["after", "before", "good"]
