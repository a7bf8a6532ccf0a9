"""Asks Apache's proxy 5.5.0 each RPC as several users and writes tests/golden/access/calls.json.

`python -m tests.interop.decisions.record_calls`. A row is RPC, user, and whether the answer is 40100 (UNAUTHORIZED).
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import grpc

from pyromq.protocol.grpc import v2
from tests.access.test_grpc_calls import REQUESTS, ask, credentials
from tests.interop.conftest import registered
from tests.interop.peers import java
from tests.interop.peers.java_proxy import Proxy
from tests.interop.secured import ADMIN, JAVA_SETTINGS, SECRET
from tests.interop.signing import Administrator

from .record import GOLDEN, VERSION
from .users import Entry, allow, deny

CALLS = GOLDEN / "calls.json"
UNAUTHORIZED = int(v2.Code.UNAUTHORIZED)
USERS: dict[str, list[Entry]] = {
    "nothing": [],
    "sends": [allow("Topic:T", "Pub")],
    "reads": [allow("Topic:T", "Sub"), allow("Group:G", "Sub")],
    "topic only": [allow("Topic:T", "Sub")],
    "group only": [allow("Group:G", "Sub")],
    "others": [allow("Topic:U", "All"), allow("Group:H", "All")],
    "sees": [allow("*", "Get,List")],
    "manages": [allow("*", "Create,Update,Delete")],
    "all": [allow("*", "All")],
    "all but the topic": [allow("*", "All"), deny("Topic:T", "All")],
    "all but the group": [allow("*", "All"), deny("Group:G", "All")],
    "from elsewhere": [allow("*", "All", "10.0.0.0/8")],
}
_PROXY = "org.apache.rocketmq.proxy.auth.Proxy{}MetadataProvider"
PROXY: dict[str, object] = {
    "enableAclRpcHookForClusterMode": True,  # its own requests are signed, by the keys in tools.yml
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "authenticationProvider": JAVA_SETTINGS["authenticationProvider"],
    "authenticationMetadataProvider": _PROXY.format("Authentication"),
    "authorizationProvider": JAVA_SETTINGS["authorizationProvider"],
    "authorizationMetadataProvider": _PROXY.format("Authorization"),
    "innerClientAuthenticationCredentials": JAVA_SETTINGS["innerClientAuthenticationCredentials"],
}
STRANGERS = ("nobody", "guessed", "unknown")


def make_users(server: Administrator) -> None:
    for name, entries in USERS.items():
        server.make_user(name, SECRET)
        if entries:
            server.give(name, [{"policyType": "Custom", "entries": entries}])


async def decisions(endpoint: str) -> list[list[object]]:
    """Ask every RPC as every user and stranger."""
    found: list[list[object]] = []
    async with grpc.aio.insecure_channel(endpoint) as channel:
        for rpc in REQUESTS:
            callers = (*USERS, *STRANGERS)
            found += [[rpc, who, await ask(channel, rpc, shown_by(who)) == UNAUTHORIZED] for who in callers]
    return found


def shown_by(who: str) -> list[tuple[str, str]]:
    if who == "nobody":
        return []
    return credentials("all", "wrong") if who == "guessed" else credentials(who, SECRET)


@asynccontextmanager
async def apaches() -> AsyncIterator[str]:
    """Serve by Apache's proxy before its broker, which has the users."""
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        names = await asyncio.to_thread(java.NameServer, VERSION, Path(home) / "names")
        stack.callback(names.kill)
        start = partial(java.Broker, VERSION, Path(home) / "broker", [names.address], JAVA_SETTINGS)
        broker = await asyncio.to_thread(start)
        stack.callback(broker.kill)
        await asyncio.to_thread(registered, names.address, broker)
        server = Administrator(broker.address, ADMIN, SECRET)
        await asyncio.to_thread(make_users, server)
        place = Path(home) / "proxy"
        (place / "conf").mkdir(parents=True)
        (place / "conf" / "tools.yml").write_text(f'accessKey: {ADMIN}\nsecretKey: "{SECRET}"\n')
        proxy = await asyncio.to_thread(Proxy, place, names.address, PROXY)
        stack.callback(proxy.kill)
        yield proxy.endpoint


async def main() -> None:
    async with apaches() as endpoint:
        rows = await decisions(endpoint)
    CALLS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", "utf-8")
    print(f"{len(rows)} calls, {sum(bool(row[2]) for row in rows)} refused: {CALLS}")


if __name__ == "__main__":
    asyncio.run(main())
