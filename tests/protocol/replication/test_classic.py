"""The classic replication stream: Java's recorded one cut at every byte, and what no peer may send."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from pyromq.errors import ProtocolError
from pyromq.protocol.replication.classic import (
    MOST_CHUNK_BYTES,
    Chunk,
    ChunkReader,
    ReportReader,
    encode_header,
    encode_report,
)
from tests.golden_ha import FILE_BYTES, STREAM_BYTES, classic_stream, log_bytes, unpack_stores


def chunks_of(data: bytes, step: int) -> list[Chunk]:
    reader = ChunkReader()
    return [chunk for at in range(0, len(data), step) for chunk in reader.receive(data[at : at + step])]


def sent_by_master() -> dict[int, bytes]:
    sent: dict[int, bytes] = defaultdict(bytes)
    for piece in classic_stream():
        if piece.from_master:
            sent[piece.connection] += piece.data
    return sent


@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 20])
def test_java_s_stream_is_the_log_however_it_arrives(step: int, tmp_path: Path) -> None:
    log = b""
    for data in sent_by_master().values():
        for chunk in chunks_of(data, step):
            assert chunk.position == len(log)  # heartbeats name what comes next, too
            assert (
                not chunk.data or chunk.position // FILE_BYTES == (chunk.position + len(chunk.data) - 1) // FILE_BYTES
            )
            log += chunk.data
    assert len(log) == STREAM_BYTES
    assert log_bytes(unpack_stores(tmp_path)[0])[:STREAM_BYTES] == log


def test_what_is_encoded_is_what_java_sent() -> None:
    for data in sent_by_master().values():
        chunks = chunks_of(data, 1 << 20)
        again = b"".join(encode_header(chunk.position, len(chunk.data)) + chunk.data for chunk in chunks)
        assert data.startswith(again)
        assert len(data) - len(again) < 12 + FILE_BYTES  # a kill may have cut the last one


def test_a_cut_anywhere_gives_the_same_chunks() -> None:
    data = encode_header(100, 5) + b"abcde" + encode_header(105, 0) + encode_header(105, 1) + b"f"
    for cut in range(len(data) + 1):
        reader = ChunkReader()
        found = [*reader.receive(data[:cut]), *reader.receive(data[cut:])]
        assert found == [Chunk(100, b"abcde"), Chunk(105, b""), Chunk(105, b"f")]


@pytest.mark.parametrize("header", [encode_header(0, -1), encode_header(-1, 0), encode_header(0, MOST_CHUNK_BYTES + 1)])
def test_a_header_that_no_master_sends_is_refused_before_memory_is_spent(header: bytes) -> None:
    with pytest.raises(ProtocolError, match="the master at the HA port sends something else"):
        list(ChunkReader().receive(header))


def test_java_s_reports_are_read_however_they_arrive() -> None:
    sent: dict[int, bytes] = defaultdict(bytes)
    for piece in classic_stream():
        if not piece.from_master:
            sent[piece.connection] += piece.data
    for data in sent.values():
        reader = ReportReader()
        one_by_one = [position for byte in data if (position := reader.receive(bytes([byte]))) is not None]
        assert b"".join(map(encode_report, one_by_one)) == data
        assert ReportReader().receive(data) == one_by_one[-1]


def test_only_the_newest_report_of_a_read_counts() -> None:
    reader = ReportReader()
    assert reader.receive(encode_report(0) + encode_report(65536) + b"\0\0") == 65536
    assert reader.receive(encode_report(70000)[2:]) == 70000


def test_a_negative_report_is_no_slave_s() -> None:
    with pytest.raises(ProtocolError, match="no slave of this broker"):
        ReportReader().receive(encode_report(-5))
