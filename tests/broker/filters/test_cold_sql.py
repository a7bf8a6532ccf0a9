"""SQL92 pulls over old messages: records that an expression is asked of are read in a helper, never on the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.store.files.real_disk import RealFile
from tests.broker.running import Running, running_broker
from tests.store.cold import Medium
from tests.wire import decode_messages

T = TypeVar("T")
MESSAGES = 300
PAGE = 256


def cold_log(monkeypatch: pytest.MonkeyPatch) -> Medium:
    """The commit log is cold, queues are warm."""
    return Medium(monkeypatch, RealFile, PAGE, is_cold=lambda name: name.startswith("commitlog/"), may_read_again=True)


async def walk(broker: Running, text: str) -> list[int]:
    """All that a consumer gets that begins at 0 and goes on where it is told."""
    found: list[int] = []
    offset = 0
    while offset < MESSAGES:
        fields: dict[str, Any] = {"expressionType": "SQL92", "offset": offset, "tags": text}
        answer = await broker.pull(**fields)
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY), answer.remark
        found += [int(message.body) for message in decode_messages(bytes(answer.body))]
        assert int(answer.fields["nextBeginOffset"]) > offset
        offset = int(answer.fields["nextBeginOffset"])
    return found


@pytest.mark.parametrize("step", [1, 7, 50, MESSAGES + 1])
async def test_cold_records_are_filtered_as_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    async with running_broker(tmp_path, enable_property_filter=True) as broker:
        for number in range(MESSAGES):
            properties = {"n": str(number), "hit": str(number % step == step - 1).lower()}
            assert (await broker.send(body=b"%d" % number, properties=properties)).code == 0
        medium = cold_log(monkeypatch)
        monkeypatch.setattr(broker.broker.store._reading, "run_blocking", medium)
        assert await walk(broker, "hit = TRUE") == list(range(step - 1, MESSAGES, step))
        assert medium.fetched > 0
        cold = medium.fetched
        assert await walk(broker, "hit = TRUE") == list(range(step - 1, MESSAGES, step))
        assert medium.fetched == cold  # all is warm now
