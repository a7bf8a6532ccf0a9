"""A client of HTTP/2 whose bytes the tests of sessions hold in their hands: on `h2`, and single frames by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes

SEND = "/apache.rocketmq.v2.MessagingService/SendMessage"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, payload: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def frames(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each frame behind a preface, if there is one."""
    at = 24 if data.startswith(b"PRI ") else 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 3], "big")
        kind, flags, stream = struct.unpack_from(">BBI", data, at + 3)
        yield kind, flags, stream, data[at + 9 : at + 9 + length]
        at += 9 + length


def framed(message: bytes, packed: int = 0) -> bytes:
    return struct.pack(">BI", packed, len(message)) + message


def headers(path: str = SEND, **more: Any) -> list[tuple[str, str]]:
    fixed = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost:8081")]
    rest = {"content-type": "application/grpc", "te": "trailers", "x-mq-client-id": "me@1@0@abc"}
    return [*fixed, *rest.items(), *((name.replace("_", "-"), value) for name, value in more.items())]


class Peer:
    """The client. `said` is what it has to say since the last call; `hear` takes the server's bytes."""

    def __init__(self, window: int | None = None) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        if window is not None:
            self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.answers: dict[int, list[object]] = {}

    def said(self) -> bytes:
        return self.h2.data_to_send()

    def call(self, stream: int, *messages: bytes, path: str = SEND, end: bool = True, **more: Any) -> None:
        self.h2.send_headers(stream, headers(path, **more), end_stream=end and not messages)
        for number, message in enumerate(messages):
            self.h2.send_data(stream, framed(message), end_stream=end and number == len(messages) - 1)

    def hear(self, data: bytes) -> None:
        """Note answers: headers as a dict, data as bytes, the end and a reset as words."""
        for event in self.h2.receive_data(data):
            if isinstance(event, ResponseReceived | TrailersReceived):
                self.answers.setdefault(event.stream_id, []).append(dict(event.headers))
            elif isinstance(event, DataReceived):
                self.answers.setdefault(event.stream_id, []).append(event.data)
            elif isinstance(event, StreamEnded):
                self.answers.setdefault(event.stream_id, []).append("ended")
            elif isinstance(event, StreamReset):
                self.answers.setdefault(event.stream_id, []).append(f"reset {int(event.error_code)}")
