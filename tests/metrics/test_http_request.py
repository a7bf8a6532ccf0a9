"""Heads of requests that scrapers send, and those that nobody should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.metrics.http_request import MOST_HEAD_BYTES, BadRequest, take_request


def taken(head: str) -> object:
    return take_request(bytearray(head.encode("latin-1")))


def test_a_request_comes_in_parts() -> None:
    received = bytearray()
    head = b"GET /metrics?name[]=a&name[]=b HTTP/1.1\r\nAccept: text/plain;q=0.5,*/*\r\n\r\nGET"
    for byte in head[:-5]:
        received.append(byte)
        assert take_request(received) is None
    received += head[-5:]
    request = take_request(received)
    assert request is not None
    assert (request.method, request.path, request.query["name[]"]) == ("GET", "/metrics", ["a", "b"])
    assert request.keeps_open
    assert received == b"GET"


@pytest.mark.parametrize(
    ("header", "accepts"),
    [("gzip", True), ("deflate, gzip;q=1.0", True), ("gzip;q=0", False), ("gzip;q=0.000", False), ("br", False)],
)
def test_what_is_accepted(header: str, accepts: bool) -> None:
    request = take_request(bytearray(f"GET / HTTP/1.1\r\nAccept-Encoding: {header}\r\n\r\n".encode()))
    assert request is not None
    assert request.accepts("accept-encoding", "gzip") is accepts


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET http://other/ HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n : empty\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400),
        ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET /?" + "a=b&" * 200 + " HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nX: " + "x" * MOST_HEAD_BYTES, 431),
    ],
)
def test_what_is_refused(head: str, status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        taken(head)
    assert refused.value.status == status


@given(st.binary(max_size=300))
def test_whatever_comes_is_taken_refused_or_not_complete(raw: bytes) -> None:
    for head in (raw, raw + b"\r\n\r\n", b"GET /" + raw + b" HTTP/1.1\r\n\r\n"):
        received = bytearray(head)
        try:
            request = take_request(received)
        except BadRequest:
            continue
        assert request is None or len(received) < len(head)
