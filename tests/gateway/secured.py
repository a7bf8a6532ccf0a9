"""A cluster of ours that asks everybody who he is, and what a gateway before it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from tests.access.matrix import ON, SECRET, SUPER
from tests.client.world import World

INNER: dict[str, Any] = {"inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"of servers"}'}
# The gateway has no users of its own: all of them are the cluster's.
GATE: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "stranger_refusals": 1_000_000,  # as of the matrix
    **INNER,
}
SHOP, PASSWORD = "shop", "shop's own password"


class Secured(World):
    """As its administrator sees it."""

    keys: Mapping[str, str] = MappingProxyType({"access_key": SUPER, "secret_key": SECRET})

    async def administer(self, server: str, code: int, body: Any = None, **fields: str) -> Command:
        answer = await self.ask(server, code, b"" if body is None else json.dumps(body).encode(), **fields)
        assert answer.code == 0, answer.remark
        return answer

    async def make_user(self, server: str, *entries: dict[str, Any], name: str = SHOP) -> None:
        await self.administer(server, Code.AUTH_CREATE_USER, {"password": PASSWORD}, username=name)
        if entries:
            await self.permit(server, *entries, name=name)

    async def permit(self, server: str, *entries: dict[str, Any], name: str = SHOP) -> None:
        body = {"policies": [{"entries": list(entries)}]}
        await self.administer(server, Code.AUTH_UPDATE_ACL, body, subject=f"User:{name}")


@asynccontextmanager
async def secured(folder: Path, brokers: int = 1, **settings: Any) -> AsyncIterator[Secured]:
    world = Secured(folder, **(ON | INNER | settings))
    try:
        await world.start_name_server()
        for number in range(brokers):
            await world.start_broker(f"broker-{'abc'[number]}")
        yield world
    finally:
        await world.close()
