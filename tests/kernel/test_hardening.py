"""The built modules are linked and compiled so that an overrun ends the process: read off the libraries themselves."""

from __future__ import annotations

import struct
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import require

PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
DT_NULL, DT_FLAGS, DT_FLAGS_1 = 0, 30, 0x6FFFFFFB
BIND_NOW, NOW, EXECUTABLE = 8, 1, 1
_HEAD = struct.Struct("<32xQ14xHH")  # where the programs' headers begin, bytes of one, how many
_PROGRAM = struct.Struct("<IIQQQQQQ")  # kind, flags, offset, address, physical, bytes in the file, in memory, alignment


class Library:
    """Program headers by kind, entries of the dynamic section by tag."""

    def __init__(self, content: bytes) -> None:
        begin, size, count = _HEAD.unpack_from(content)
        headers = [_PROGRAM.unpack_from(content, begin + number * size) for number in range(count)]
        self.flags = {kind: flags for kind, flags, *_ in headers}
        (place, length) = next((each[2], each[5]) for each in headers if each[0] == PT_DYNAMIC)
        self.dynamic = dict(struct.iter_unpack("<QQ", content[place : place + length]))


@pytest.fixture(scope="module", params=["kernel", "http2"])
def content(request: pytest.FixtureRequest) -> bytes:
    spec = find_spec(f"pyromq.kernel.native.{request.param}")
    require(spec is not None, f"the native module {request.param} is not built here: make native (libnghttp2-dev)")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_bytes()  # if it was built before these flags were there: make native


def test_tables_of_addresses_are_filled_at_the_start_and_read_only_then(content: bytes) -> None:
    library = Library(content)
    assert PT_GNU_RELRO in library.flags
    assert library.dynamic.get(DT_FLAGS, 0) & BIND_NOW or library.dynamic.get(DT_FLAGS_1, 0) & NOW


def test_the_stack_is_not_executable(content: bytes) -> None:
    assert not Library(content).flags[PT_GNU_STACK] & EXECUTABLE


def test_overruns_of_the_stack_and_of_buffers_of_known_size_end_the_process(content: bytes) -> None:
    if b"__asan_init" not in content:  # of `make sanitize`, which checks more than that
        assert b"__stack_chk_fail" in content
        assert b"vsnprintf" not in content.replace(b"__vsnprintf_chk", b"")
