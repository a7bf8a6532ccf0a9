"""The broker's settings over the wire: shown (request 26) and changed (request 25).

Only settings marked live may be changed; what is changed is kept in the overlay file and so survives a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ... import logs
from ...config import Live, properties
from ...config.over_wire import SOURCE, checked_change
from ...errors import RequestRefused
from ...protocol.bodies.body import DataVersion, encode_body
from ...protocol.headers.admin import GetBrokerConfigAnswer
from ...store.log.retention import RetentionConfig
from ...transport.dispatch import Reply, Request
from ..config import BrokerConfig
from ..metadata.table_content import next_version

log = logs.get("pyromq.broker")

BLACK_LIST = frozenset(("brokerConfigPath", "configBlackList", "rocketmqHome"))  # Java's, with its words


@dataclass(slots=True, eq=False, repr=False)
class SettingsAdmin:
    """Event loop only. `changed` is told the Java keys that have new values; `address` is what clients are told."""

    live: Live[BrokerConfig]
    now_ms: Callable[[], int]
    address: str
    changed: Callable[[set[str]], None]
    version: DataVersion = field(default_factory=DataVersion)

    def show(self, request: Request) -> Reply:
        shown = dict(sorted(self.live.shown().items()))
        # Where the configuration leaves it to us, what came of it.
        host, _, port = self.address.rpartition(":")
        shown |= {"brokerIP1": host.strip("[]"), "listenPort": port}
        text = properties.render(shown)
        return Reply(header=GetBrokerConfigAnswer(version=encode_body(self.version).decode()), body=text.encode())

    def change(self, request: Request) -> Reply:
        if not request.raw_body:
            raise RequestRefused("string2Properties error: the body is empty, write key=value lines")
        try:
            text = request.raw_body.decode()
        except UnicodeDecodeError as fault:
            raise RequestRefused(f"the body is no UTF-8 at byte {fault.start}") from None
        before = self.live.shown()
        with checked_change(text, BLACK_LIST, self.live.config.overlay_path):
            changed = self.live.change(text, SOURCE)
        self.version = next_version(self.version, self.now_ms())
        log.warning("settings changed over the wire", peer=request.peer.address, **changed)
        self.changed(set(changed))
        clamped = self.live.config.part(RetentionConfig).clamped()
        notes = [
            f"{key} = {changed[key]} counts as {value}, as in Java" for key, value in clamped.items() if key in changed
        ]
        return Reply(remark="; ".join(notes) or None, noted=self.live.noted(changed, before))
