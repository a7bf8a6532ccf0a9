"""Settings of running brokers and name servers (Java's keys), and the name servers' key-value table."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import properties
from ..model.codes import ResponseCode
from ..protocol.bodies.route import KVTable
from ..protocol.command import Command
from ..protocol.headers.namesrv import DeleteKvConfig, GetKvConfig, GetKvConfigAnswer, GetKvList, PutKvConfig
from ..protocol.requests import RequestCode
from .calls import Calls, read


async def of_broker(calls: Calls, address: str) -> dict[str, str]:
    return _pairs(await calls.broker(address, RequestCode.GET_BROKER_CONFIG), address)


async def change_broker(calls: Calls, address: str, pairs: Mapping[str, str]) -> None:
    """Refused, if the broker does not let this key be changed."""
    await calls.broker(address, RequestCode.UPDATE_BROKER_CONFIG, body=properties.render(pairs).encode())


async def of_name_server(calls: Calls, address: str) -> dict[str, str]:
    return _pairs(await calls.broker(address, RequestCode.GET_NAMESRV_CONFIG), address)


async def change_name_server(calls: Calls, address: str, pairs: Mapping[str, str]) -> None:
    await calls.broker(address, RequestCode.UPDATE_NAMESRV_CONFIG, body=properties.render(pairs).encode())


def _pairs(answer: Command, address: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in properties.parse(bytes(answer.body).decode(), address)}


# --- the key-value table ----------------------------------------------------------------------------------------------


async def kv_get(calls: Calls, namespace: str, key: str) -> str | None:
    known = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    header = GetKvConfig(namespace=namespace, key=key)
    answer = await calls.name_server(RequestCode.GET_KV_CONFIG, header, expected=known)
    return GetKvConfigAnswer.from_fields(answer.fields).value if answer.code == ResponseCode.SUCCESS else None


async def kv_list(calls: Calls, namespace: str) -> dict[str, str]:
    """Empty if there is no such namespace."""
    known = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    header = GetKvList(namespace=namespace)
    answer = await calls.name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, header, expected=known)
    return read(KVTable, answer).table if answer.code == ResponseCode.SUCCESS else {}


async def kv_put(calls: Calls, namespace: str, key: str, value: str) -> None:
    """On every name server."""
    await calls.name_servers(RequestCode.PUT_KV_CONFIG, PutKvConfig(namespace=namespace, key=key, value=value))


async def kv_delete(calls: Calls, namespace: str, key: str) -> None:
    """On every name server."""
    await calls.name_servers(RequestCode.DELETE_KV_CONFIG, DeleteKvConfig(namespace=namespace, key=key))
