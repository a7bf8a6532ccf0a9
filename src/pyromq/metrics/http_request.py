"""The little of HTTP/1.1 that a scraper speaks: heads of GET requests in, whole answers out. Pure bytes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

MOST_HEAD_BYTES = 8 << 10
_END = b"\r\n\r\n"
_REFUSED = ("q=0", "q=0.0", "q=0.00", "q=0.000")
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Headers Too Large"}
_REASONS |= {500: "Internal Server Error", 503: "Service Unavailable"}


class HttpRequest(NamedTuple):
    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]  # by lower-case name
    keeps_open: bool

    def accepts(self, header: str, word: str) -> bool:
        """Return whether a header names something and does not refuse it by `q=0`."""
        for part in self.headers.get(header, "").lower().split(","):
            name, _, weight = part.partition(";")
            if name.strip() == word and weight.replace(" ", "") not in _REFUSED:
                return True
        return False


class BadRequest(Exception):
    """What came is no request that is served here. `status` says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def take_request(received: bytearray) -> HttpRequest | None:
    """Take one request off the front of what was received; None: its head is not complete. Raise BadRequest."""
    end = received.find(_END)
    if end < 0:
        if len(received) > MOST_HEAD_BYTES:
            raise BadRequest(431, f"a head of more than {MOST_HEAD_BYTES} bytes")
        return None
    if end > MOST_HEAD_BYTES:
        raise BadRequest(431, f"a head of more than {MOST_HEAD_BYTES} bytes")
    first, *lines = bytes(received[:end]).decode("latin-1").split("\r\n")
    del received[: end + len(_END)]
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise BadRequest(400, "no HTTP/1.1 request")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(400, "a header without a name")
        headers[name.lower()] = value.strip()
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadRequest(400, "a request with a body")
    try:
        address = urlsplit(words[1])
        query = parse_qs(address.query, max_num_fields=100)
    except ValueError:
        raise BadRequest(400, "an address that cannot be read") from None
    closes = headers.get("connection", "").lower() == "close" or words[2] == "HTTP/1.0"
    return HttpRequest(words[0], address.path, query, headers, not closes)


def answer(status: int, content_type: str, body: bytes, *, gzipped: bool = False, keeps_open: bool = False) -> bytes:
    """Return a whole answer."""
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "X-Content-Type-Options: nosniff",
        *(["Content-Encoding: gzip"] if gzipped else []),
        *(["Allow: GET, HEAD"] if status == 405 else []),
        f"Connection: {'keep-alive' if keeps_open else 'close'}",
    ]
    return "\r\n".join(lines).encode("latin-1") + _END + body


def gzipped(body: bytes) -> bytes:
    """Return the body compressed, quickly rather than well."""
    pack = zlib.compressobj(1, zlib.DEFLATED, 31)
    return pack.compress(body) + pack.flush()
