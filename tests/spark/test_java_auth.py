"""Signed reads and writes at Apache's broker 5.5.0 with authentication on. By hand: a Java broker of its own."""

from __future__ import annotations

import pytest

from pyromq.client.errors import Error
from pyromq.errors import PyroError
from pyromq.spark.options import write_options
from pyromq.spark.write.sending import BatchSender
from pyromq.spark.write.writing import RowWriter
from tests.interop.test_signatures import SECRET, USER, address
from tests.spark.reading import numbers, read_rows
from tests.spark.servers import until_registered
from tests.spark.test_write import chunks

__all__ = ["address"]
pytestmark = [pytest.mark.interop, pytest.mark.slow]
KEYS = {"accessKey": USER, "secretKey": SECRET}


def write(address: str, count: int, keys: dict[str, str]) -> int:
    given = write_options({"nameServer": address, "topic": "signed-rows", "sendTimeoutMs": "20000"} | keys)
    return RowWriter(given, "query/0/0", 0, BatchSender(given)).write(chunks(count)).rows


def test_signed_rows_are_written_and_read_and_others_refused(address: str) -> None:
    until_registered(address, "broker-a")
    assert write(address, 100, KEYS) == 100
    source = {"nameServer": address, "topic": "signed-rows"}
    assert numbers(read_rows(source | KEYS, ["body"])) == list(range(100))
    for keys in ({}, {"accessKey": USER, "secretKey": "guessed!"}):
        with pytest.raises((Error, PyroError)):
            write(address, 1, keys)
        with pytest.raises((Error, PyroError)):
            read_rows(source | keys | {"pullTimeoutMs": "2000", "fetchOffset.numRetries": "0"}, ["body"])
