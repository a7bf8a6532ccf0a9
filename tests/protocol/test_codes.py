"""The code tables are complete: 169 request codes of 5.5.0, four of 4.9, and 68 response codes."""

from __future__ import annotations

import json
from pathlib import Path

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import ROWS

RECORDED = Path(__file__).parent.parent / "golden" / "frames" / "index.jsonl"
ONLY_4_9 = {50, 51, 52, 53}
OURS = {code for code in ROWS if 30_001 <= code < 200_000}  # RocketMQ's own are below and above


def test_the_tables_are_complete_and_have_no_aliases() -> None:
    theirs = [row for row in ROWS if row not in OURS]
    assert len(theirs) == len({row.name for row in ROWS.values()}) - len(OURS) == 169 + len(ONLY_4_9)
    assert ROWS.keys() >= ONLY_4_9
    assert len(ResponseCode) == len(ResponseCode.__members__) == 68


def test_names_agree_with_the_recording() -> None:
    named = 0
    with RECORDED.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["requestName"] is not None:
                assert ROWS[entry["requestCode"]].name == entry["requestName"]
                named += 1
            if not entry["dir"].endswith("request"):
                assert entry["code"] in set(ResponseCode)
    assert named > 1500
