"""Compressed bodies: the type stands in bits 8 to 10 of sysFlag. What comes out is bounded before it is made.

lz4 and zstandard are an optional extra; without them such a body is an error that says what to install.
"""

from __future__ import annotations

import importlib
import zlib
from enum import IntEnum
from typing import Any

from ..errors import ProtocolError, PyroError
from ..model.message import SysFlag
from ..text.extras import install_command

DEFAULT_PLAIN_LIMIT = 64 << 20
DEFAULT_LEVEL = 5
_ZSTD_PIECE = 256


class Compression(IntEnum):
    """The values of the type field. Old clients leave it 0 and mean zlib; writers of today say 3."""

    ZLIB_LEGACY = 0
    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


class CompressionMissing(PyroError):
    """The package for this kind of compression is not installed. The text says which one to install."""


def compression_of(sys_flag: int) -> Compression | None:
    """Return how the body is compressed; None where it is plain. ProtocolError for a type that does not exist."""
    if not sys_flag & SysFlag.COMPRESSED:
        return None
    kind = (sys_flag & SysFlag.COMPRESSION_MASK) >> SysFlag.COMPRESSION_SHIFT
    try:
        return Compression(kind)
    except ValueError:
        raise ProtocolError(f"compression type {kind} in sysFlag {sys_flag:#x} does not exist (0 to 3 do)") from None


def compressed_flag(kind: Compression) -> int:
    """Return the bits that a sysFlag gets for a body compressed this way."""
    return SysFlag.COMPRESSED | kind << SysFlag.COMPRESSION_SHIFT


def compress(body: bytes, kind: Compression, level: int = DEFAULT_LEVEL) -> bytes:
    if kind is Compression.LZ4:
        return bytes(_package("lz4.frame", "lz4").compress(body))
    if kind is Compression.ZSTD:
        return bytes(_package("zstandard", "zstandard").ZstdCompressor(level=level).compress(body))
    return zlib.compress(body, level)


def decompress(body: bytes, kind: Compression, limit: int = DEFAULT_PLAIN_LIMIT) -> bytes:
    """Return the plain body. ProtocolError if it is damaged, cut short, or would be longer than `limit`."""
    try:
        plain, complete = _decompress(bytes(body), kind, limit + 1)
    except CompressionMissing:
        raise
    except Exception as fault:  # each package has its own error types
        raise ProtocolError(f"{kind.name} body of {len(body)} bytes cannot be decompressed: {fault}") from None
    if len(plain) > limit:
        raise ProtocolError(f"{kind.name} body of {len(body)} bytes is over {limit} bytes when decompressed")
    if not complete:
        raise ProtocolError(f"{kind.name} body of {len(body)} bytes is cut short")
    return plain


def _decompress(body: bytes, kind: Compression, most: int) -> tuple[bytes, bool]:
    if kind is Compression.ZSTD:
        return _decompress_zstd(body, most)
    make = _package("lz4.frame", "lz4").LZ4FrameDecompressor if kind is Compression.LZ4 else zlib.decompressobj
    decoder = make()
    plain = decoder.decompress(body, most)
    return plain, decoder.eof


def _decompress_zstd(body: bytes, most: int) -> tuple[bytes, bool]:
    """Decompress in small pieces (256 bytes make 8 MiB at most): the package's decoder has no limit of its own."""
    decoder = _package("zstandard", "zstandard").ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    length = 0
    for at in range(0, len(body), _ZSTD_PIECE):
        parts.append(decoder.decompress(body[at : at + _ZSTD_PIECE]))
        length += len(parts[-1])
        if decoder.eof or length >= most:
            break
    return b"".join(parts), decoder.eof


def _package(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise CompressionMissing(
            f"this message is compressed with {package}, which is not installed: {install_command('compress')}"
        ) from None
