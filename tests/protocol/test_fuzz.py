"""A share of the fuzzer's mutations (the whole campaign is run by hand, see fuzz.py) and every find so far."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.protocol.headers.header import Header

from . import fuzz
from .recorded import Recorded

SHARE = 20_000
SEED = 1


def test_mutated_frames_end_in_commands_or_clean_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "FINDS", tmp_path)  # a find of a test run is in its report, not in the tree
    outcomes, finds = fuzz.run(SEED, 0, SHARE)
    assert finds == []
    assert sum(outcomes.values()) == SHARE
    # Not only broken frames: a good part gets as far as the typed headers and bodies.
    assert min(outcomes[name] for name in ("broken frame", "malformed", "whole", "waits for more")) > SHARE // 50


@pytest.mark.parametrize(("name", "frame", "wire"), fuzz.kept(), ids=[name for name, *_ in fuzz.kept()])
def test_finds_stay_mended(name: str, frame: Recorded, wire: bytes) -> None:
    assert fuzz.run_case(frame, wire)


def test_a_case_is_always_the_same_bytes() -> None:
    assert [fuzz.mutated(7, case) for case in range(50)] == [fuzz.mutated(7, case) for case in range(50)]
    assert fuzz.mutated(7, 0) != fuzz.mutated(8, 0)


def test_the_fuzzer_finds_and_keeps_what_is_not_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(cls: type[Header], fields: dict[str, str]) -> Header:
        raise KeyError("topic")

    monkeypatch.setattr(fuzz, "FINDS", tmp_path)
    monkeypatch.setattr(Header, "from_fields", classmethod(careless))
    _, finds = fuzz.run(SEED, 0, 100)
    assert finds
    assert all(isinstance(find, KeyError) for _, find in finds)
    kept = fuzz.kept()
    assert {wire for _, _, wire in kept} == {fuzz.mutated(SEED, case)[1] for case, _ in finds}
