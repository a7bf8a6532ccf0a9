"""The broker's process: what it sets up around the broker."""

from __future__ import annotations

import gc

import pytest

from pyromq.broker import daemon


def test_what_stands_when_the_broker_is_ready_is_left_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(gc.get_freeze_count()))
    gc.unfreeze()
    try:
        with daemon._settled():
            assert collected == [0]  # what is garbage already is not kept
            assert gc.get_freeze_count() > 1000
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()  # as tests/conftest.py left it, for the tests that follow
