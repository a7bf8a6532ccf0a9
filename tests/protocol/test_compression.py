from __future__ import annotations

import importlib
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.protocol.compression import (
    Compression,
    CompressionMissing,
    compress,
    compressed_flag,
    compression_of,
    decompress,
)
from pyromq.text.extras import install_command

kinds = pytest.mark.parametrize("kind", list(Compression))


@kinds
def test_flag_tells_the_kind(kind: Compression) -> None:
    assert compression_of(compressed_flag(kind) | 64) is kind


def test_flags_of_the_java_clients() -> None:
    assert {compressed_flag(kind): kind.name for kind in Compression} == {
        1: "ZLIB_LEGACY",
        257: "LZ4",
        513: "ZSTD",
        769: "ZLIB",
    }
    assert compression_of(0x300) is None


def test_a_kind_that_does_not_exist_is_a_clean_error() -> None:
    with pytest.raises(ProtocolError, match="type 4"):
        compression_of(1 | 4 << 8)


@given(st.binary(max_size=2000), st.sampled_from(Compression))
def test_round_trip(body: bytes, kind: Compression) -> None:
    assert decompress(compress(body, kind), kind, len(body)) == body


@kinds
def test_a_bomb_is_refused_at_the_limit(kind: Compression) -> None:
    bomb = compress(bytes(8 << 20), kind)
    with pytest.raises(ProtocolError, match="over 1048576 bytes"):
        decompress(bomb, kind, 1 << 20)


@kinds
def test_cut_and_damaged_bodies_are_clean_errors(kind: Compression) -> None:
    packed = compress(b"some text " * 100, kind)
    for cut in range(len(packed)):
        with pytest.raises(ProtocolError):
            decompress(packed[:cut], kind)
    with pytest.raises(ProtocolError):
        decompress(b"junk" + packed, kind)


@pytest.mark.parametrize(("kind", "package"), [(Compression.LZ4, "lz4"), (Compression.ZSTD, "zstandard")])
def test_without_the_extra_the_error_says_what_to_install(
    kind: Compression, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError):
        importlib.import_module("zstandard")
    with pytest.raises(CompressionMissing, match=f"{package}.*{re.escape(install_command('compress'))}"):
        decompress(b"x", kind)
