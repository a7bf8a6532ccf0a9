"""Every property with hostile values, behind the native kernel and without: both answer and store the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.send.properties import OWN_NAMES
from pyromq.protocol.frame import encode_frame
from tests.broker.hostile import KINDS, PROPERTIES, VALUES, command
from tests.kernel.twins import lives, native_module

SETTINGS: dict[str, Any] = {"commit_log_file_bytes": 32 << 20, "index_slots": 20_000, "index_entries": 100_000}


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("kind", ["plain", "batch"])
async def test_hostile_properties_are_the_same_to_both(tmp_path: Path, kind: str, crc: bool) -> None:
    frames = [
        encode_frame(command(kind, f"{name}/{place}", {name: VALUES[place]}, number * len(VALUES) + at))
        for number, name in enumerate(PROPERTIES)
        for at, place in enumerate(VALUES)
    ]
    bursts = [b"".join(frames[start : start + 50]) for start in range(0, len(frames), 50)]
    ours = await lives(tmp_path, bursts, native_module(), whole_record_crc=crc, **SETTINGS)
    assert ours.by_kernel > 0
    assert ours[:3] == (await lives(tmp_path, bursts, None, whole_record_crc=crc, **SETTINGS))[:3]


async def test_a_broker_s_word_is_left_to_python(tmp_path: Path) -> None:
    frames = [encode_frame(command("plain", "m", {name: "1"}, at)) for at, name in enumerate(OWN_NAMES)]
    assert (await lives(tmp_path, frames, native_module(), **SETTINGS)).by_kernel == 0


async def test_one_of_each_kind_is_the_same_to_both(tmp_path: Path) -> None:
    frames = [encode_frame(command(kind, kind, {"x": "²"}, at)) for at, kind in enumerate(KINDS)]
    ours = await lives(tmp_path, frames, native_module(), **SETTINGS)
    assert ours[:3] == (await lives(tmp_path, frames, None, **SETTINGS))[:3]
