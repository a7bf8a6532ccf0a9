"""What operators keep in the name server: KV configuration, and its own settings."""

from __future__ import annotations

import asyncio

from ... import logs
from ...config import Live, properties
from ...config.over_wire import SOURCE, checked_change
from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...protocol.bodies.route import KVTable
from ...protocol.headers import namesrv as headers
from ...transport.dispatch import Reply, Request, RequestOf
from ..config import HIDDEN_KEYS, NamesrvConfig
from ..kv_config import KvConfig, RunBlocking

log = logs.get("pyromq.namesrv")


class KvHandlers:
    """Event loop only."""

    def __init__(self, kv: KvConfig) -> None:
        self._kv = kv

    async def put(self, request: RequestOf[headers.PutKvConfig, None]) -> Reply:
        """Answer 100, once the value is on disk."""
        header = request.header
        await self._kv.put(header.namespace, header.key, header.value)
        log.info("KV configuration put", namespace=header.namespace, key=header.key, by=request.peer.address)
        return Reply()

    def get(self, request: RequestOf[headers.KvKey, None]) -> Reply:
        header = request.header
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            raise RequestRefused(
                f"No config item, Namespace: {header.namespace} Key: {header.key}", ResponseCode.QUERY_NOT_FOUND
            )
        return Reply(header=headers.GetKvConfigAnswer(value=value))

    async def delete(self, request: RequestOf[headers.KvKey, None]) -> Reply:
        """Answer 102: success also if there is no such key."""
        header = request.header
        await self._kv.delete(header.namespace, header.key)
        log.info("KV configuration deleted", namespace=header.namespace, key=header.key, by=request.peer.address)
        return Reply()

    async def namespace(self, request: RequestOf[headers.KvNamespace, None]) -> Reply:
        namespace = request.header.namespace
        entries = self._kv.namespace(namespace)
        if entries is None:
            raise RequestRefused(f"No config item, Namespace: {namespace}", ResponseCode.QUERY_NOT_FOUND)
        return Reply(body=KVTable(table=dict(entries)))


class SettingsHandlers:
    """Event loop only; the overlay file is written in a helper thread, one change after the other."""

    def __init__(self, live: Live[NamesrvConfig], run_blocking: RunBlocking) -> None:
        self._live = live
        self._run_blocking = run_blocking
        self._one_at_a_time = asyncio.Lock()

    def show(self, request: Request) -> Reply:
        """Answer 319, in alphabetical order, without passwords and what has no value."""
        shown = self._live.shown() | {"configStorePath": str(self._live.config.overlay_path)}
        pairs = {key: shown[key] for key in sorted(shown)}
        hidden = {key for key in HIDDEN_KEYS if not pairs.get(key)}
        return Reply(body=properties.render({k: v for k, v in pairs.items() if v and k not in hidden}).encode())

    async def change(self, request: Request) -> Reply:
        """Answer 318, once all of it or nothing is in effect and in the overlay file."""
        text = request.raw_body.decode("utf-8", "replace")
        config = self._live.config
        async with self._one_at_a_time:
            changed: dict[str, str] = {}
            before = self._live.shown()
            with checked_change(text, config.black_list, config.overlay_path):
                await self._run_blocking(lambda: changed.update(self._live.change(text, SOURCE)))
        log.warning("settings changed", by=request.peer.address, **changed)
        return Reply(noted=self._live.noted(changed, before))
