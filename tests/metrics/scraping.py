"""Scrapes of an endpoint over a real socket, parsed by prometheus-client's own parser."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pyromq.transport.address import parse_address


class HttpReply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


async def ask(address: str, head: bytes) -> HttpReply:
    """Send bytes and read until the other side closes."""
    reader, writer = await asyncio.open_connection(*parse_address(address))
    try:
        writer.write(head)
        raw = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    first, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = first.decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return HttpReply(int(status.split(" ")[1]), {name.lower(): value for name, _, value in pairs}, body)


async def get(address: str, path: str = "/metrics", **headers: str) -> HttpReply:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return await ask(address, f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{lines}\r\n".encode())


async def scrape(address: str, path: str = "/metrics") -> dict[str, Metric]:
    """Return the families of a scrape by name; both formats have the same ones."""
    text = await get(address, path, Accept_Encoding="gzip")
    assert (text.status, text.headers["content-encoding"]) == (200, "gzip")
    families = {family.name: family for family in parse_text(gzip.decompress(text.body).decode())}
    opened = await get(address, path, Accept="application/openmetrics-text; version=1.0.0")
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    again = {family.name for family in parse_open(opened.body.decode())}  # type: ignore[no-untyped-call]
    assert again >= families.keys()
    return families


def value(families: Mapping[str, Metric], sample: str, **labels: str) -> float:
    """Return the one sample of this name with these labels."""
    found = values(families, sample, **labels)
    assert len(found) == 1, (sample, labels, found)
    return found[0]


def values(families: Mapping[str, Metric], sample: str, **labels: str) -> list[float]:
    return [
        one.value
        for family in families.values()
        for one in family.samples
        if one.name == sample and labels.items() <= one.labels.items()
    ]
