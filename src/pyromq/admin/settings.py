"""Settings of running servers (Java's keys), and the name servers' key-value table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import properties
from ..model.codes import ResponseCode
from ..protocol.headers.namesrv import KvKey, KvNamespace, PutKvConfig
from ..protocol.requests import RequestCode
from ..protocol.row import Row
from .calls import Calls


async def fetch(calls: Calls, address: str, row: Row[None, None, Any, bytes]) -> dict[str, str]:
    """Return the settings of a server: brokers, name servers and controllers have a request each."""
    text = (await calls.ask(address, row)).body.decode()
    return {entry.key: entry.value for entry in properties.parse(text, address)}


async def of_broker(calls: Calls, address: str) -> dict[str, str]:
    return await fetch(calls, address, RequestCode.GET_BROKER_CONFIG)


async def change(calls: Calls, address: str, row: Row[None, bytes, None, None], pairs: Mapping[str, str]) -> str:
    """Change settings of a server and return what it says to that, mostly nothing.

    Refused if it does not allow one of these keys to be changed."""
    return (await calls.ask(address, row, body=properties.render(pairs).encode())).remark


async def change_broker(calls: Calls, address: str, pairs: Mapping[str, str]) -> str:
    return await change(calls, address, RequestCode.UPDATE_BROKER_CONFIG, pairs)


# --- the key-value table ----------------------------------------------------------------------------------------------


async def kv_get(calls: Calls, namespace: str, key: str) -> str | None:
    header, missing = KvKey(namespace=namespace, key=key), ResponseCode.QUERY_NOT_FOUND
    answer = await calls.ask_name_server(RequestCode.GET_KV_CONFIG, header, known=[missing])
    return None if answer.code == missing else answer.header.value


async def kv_list(calls: Calls, namespace: str) -> dict[str, str]:
    """Return the namespace's pairs; none if there is no such namespace."""
    header, missing = KvNamespace(namespace=namespace), ResponseCode.QUERY_NOT_FOUND
    answer = await calls.ask_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, header, known=[missing])
    return {} if answer.code == missing else answer.body.table


async def kv_put(calls: Calls, namespace: str, key: str, value: str) -> None:
    """Set the value on every name server."""
    header = PutKvConfig(namespace=namespace, key=key, value=value)
    await calls.ask_each_name_server(RequestCode.PUT_KV_CONFIG, header)


async def kv_delete(calls: Calls, namespace: str, key: str) -> None:
    """Delete the key on every name server."""
    await calls.ask_each_name_server(RequestCode.DELETE_KV_CONFIG, KvKey(namespace=namespace, key=key))
