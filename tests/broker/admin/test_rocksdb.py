"""Requests about RocksDB: nothing to compare, and tables that are JSON files already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from tests.broker.running import running_broker


async def test_there_is_nothing_to_compare(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        told = json.loads(bytes((await broker.call(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)).body))
        assert (told["checkStatus"], "files alone" in told["checkResult"]) == (3, True)


async def test_the_tables_are_on_disk_as_they_are_now(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.send("Exported")
        broker.broker.offsets.commit("Exported", "G", 0, 1)
        answer = await broker.call(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, configType="topics;consumerOffsets;")
        assert (answer.code, answer.remark) == (0, "export done.")
        assert '"Exported"' in written(tmp_path, "topics")
        assert '"Exported@G"' in written(tmp_path, "consumerOffset")


def written(folder: Path, table: str) -> str:
    """The table's file, and the journal of what changed since it was written."""
    return "".join(path.read_text("latin-1") for path in folder.glob(f"**/{table}.json*"))


@pytest.mark.parametrize("fields", [{}, {"configType": "topics;users"}])
async def test_what_is_no_table_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with running_broker(tmp_path) as broker:
        answer = await broker.call(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, **fields)
        assert answer.code == ResponseCode.SYSTEM_ERROR
