"""The programs of docs/codecs.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import pyromq
from pyromq.client.values import encode_value

PROGRAMS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs/codecs.md").read_text("utf-8"), re.S)


def run(program: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(program, "docs/codecs.md", "exec", dont_inherit=True), names)
    return names


def test_the_page_has_three_programs() -> None:
    assert len(PROGRAMS) == 3


async def test_protobuf(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rmq_broker: pyromq.testing.RmqBroker
) -> None:
    await rmq_broker.create_topic("stamps")
    monkeypatch.setenv("PYROMQ_NAMESRV", rmq_broker.namesrv)
    names = run(PROGRAMS[0].replace("asyncio.run(main())", ""))
    await names["main"]()
    assert capsys.readouterr().out == "7\n"


def test_avro(capsys: pytest.CaptureFixture[str]) -> None:
    run(PROGRAMS[1])
    assert capsys.readouterr().out == "Order(id=1, buyer='unknown')\n"


def test_own_codec() -> None:
    codec = run(PROGRAMS[2])["codec"]
    assert isinstance(codec, pyromq.Codec)
    assert codec.decode(encode_value({"a": 1}, codec), dict) == {"a": 1}
