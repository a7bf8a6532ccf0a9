"""Every frame recorded from Java decodes and goes out again as Java accepts it: the same bytes, but for two forms.

- `"extFields":{}` in a JSON header: Java writes the empty map, we leave it out; it reads both alike (341 frames).
- A binary field without a value: Java reads it as null, as we do, so it is gone when we write (7 frames).
"""

from __future__ import annotations

import struct
from collections import Counter

from pyromq.model.client_info import Language
from pyromq.protocol.command import Command, Encoding, decode_header, encode_header
from pyromq.protocol.frame import encode_frame, encode_frame_head
from tests.wire import FrameDecoder

from .recorded import Recorded, recorded_frames

WHOLE = [frame for frame in recorded_frames() if not frame.truncated]


def decoded_header(frame: Recorded) -> Command:
    return decode_header(Encoding[frame.encoding], frame.header_bytes, max_fields=1024)


def without_empty_forms(frame: Recorded) -> bytes:
    """The header with the two forms that we do not write taken out."""
    header = frame.header_bytes
    if frame.encoding == "JSON":
        return header.replace(b'"extFields":{},', b"")
    for name in [name for name, value in frame.header["extFields"].items() if not value]:
        header = header.replace(struct.pack(">h", len(name)) + name.encode() + bytes(4), b"")
    block_at = 17  # code, language, version, opaque, flag, an empty remark
    assert header[13:block_at] == b"\0\0\0\0"
    return header[:block_at] + struct.pack(">i", len(header) - block_at - 4) + header[block_at + 4 :]


def test_the_recording_is_all_there() -> None:
    assert len(recorded_frames()) == 1698
    assert len(WHOLE) == 1684


def test_headers_read_as_the_recorder_read_them() -> None:
    for frame in recorded_frames():
        command, header = decoded_header(frame), frame.header
        for name in ("code", "opaque", "flag", "version"):
            assert getattr(command, name) == header[name], (frame, name)
        assert command.remark == header.get("remark"), frame
        named = header["language"]
        assert command.language == (Language[named] if isinstance(named, str) else Language(named)), frame
        fields = header.get("extFields") or {}
        if frame.encoding == "ROCKETMQ":
            fields = {name: value for name, value in fields.items() if value}
        assert command.fields == fields, frame


def test_headers_go_out_as_they_came() -> None:
    forms: Counter[str] = Counter()
    for frame in recorded_frames():
        out = encode_header(decoded_header(frame))
        if out == frame.header_bytes:
            forms["the same"] += 1
        else:
            assert out == without_empty_forms(frame), frame
            forms[f"{frame.encoding} without its empty form"] += 1
    assert forms == {
        "the same": 1350,
        "JSON without its empty form": 341,
        "ROCKETMQ without its empty form": 7,
    }


def test_whole_frames_go_out_as_they_came() -> None:
    for frame in WHOLE:
        (command,) = FrameDecoder().feed(frame.wire)
        assert bytes(command.body) == frame.body
        assert encode_frame(command) == encode_frame_head(command, len(frame.body)) + frame.body
        assert FrameDecoder().feed(encode_frame(command)) == [command]


def test_all_frames_in_one_stream_cut_anywhere() -> None:
    """One decoder for all of them, fed in pieces whose sizes share no factor with any frame."""
    stream = b"".join(frame.wire for frame in WHOLE)
    whole = FrameDecoder().feed(stream)
    assert len(whole) == len(WHOLE)
    for step in (1, 7, 1021, 65_521):
        decoder = FrameDecoder()
        pieces = [command for at in range(0, len(stream), step) for command in decoder.feed(stream[at : at + step])]
        assert pieces == whole
        assert decoder.buffered == 0
