"""Quotas of one broker: only ours have them."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.codes import ResponseCode
from ..protocol.bodies.own import QuotaChange, QuotaLine
from ..protocol.headers.admin import QuotaName
from ..protocol.requests import RequestCode
from .calls import Calls


async def of_broker(calls: Calls, address: str) -> list[QuotaLine]:
    return (await calls.ask(address, RequestCode.QUOTAS)).body.quotas


async def put(calls: Calls, address: str, kind: str, name: str, limits: Mapping[str, int]) -> None:
    body = QuotaChange(kind=kind, name=name, limits=dict(limits))
    await calls.ask(address, RequestCode.SET_QUOTA, body=body)


async def delete(calls: Calls, address: str, kind: str, name: str) -> bool:
    """Remove a quota from the broker's table. False: there was none."""
    header, missing = QuotaName(kind=kind, name=name), ResponseCode.QUERY_NOT_FOUND
    return (await calls.ask(address, RequestCode.DELETE_QUOTA, header, known=[missing])).code != missing
