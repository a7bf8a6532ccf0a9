"""The HA port: slaves connect to it, and are streamed the log (`sender.py`).

Who may: this machine; the addresses and networks of `haAllow`; where none are named, the hosts of the brokers that name
servers know under this broker's name, which are asked when a stranger knocks. Everybody else is closed at once, with a
line that is not repeated for each. An acknowledgement is one slave's vote however many connections it has
(`confirm.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address, ip_network

from .... import logs
from ....ambient import Clock
from ....errors import ProtocolError
from ....transport.address import parse_address
from ....transport.listening import Acceptor, Listening
from ....transport.tls import Opening
from ....transport.tls_stream import TlsStream
from ..settings import BrokerRole, ReplicationSettings
from .log_source import LogSource
from .sender import LogSender
from .wires import ClassicWire, Wires

log = logs.get("pyromq.broker")

MOST_SLAVES = 64
SAID_AGAIN_S = 10.0


class HaPort:
    """Event loop only. Connections are taken from `accept` on."""

    def __init__(
        self,
        source: LogSource,
        clock: Clock,
        settings: Callable[[], ReplicationSettings],
        members: Callable[[], Awaitable[Iterable[str]]],
        changed: Callable[[], None],
        on_append: list[Callable[[], None]],
        wires: Wires | None = None,
        opening: Opening | None = None,
    ) -> None:
        """`members`: addresses of the slaves that name servers know. `changed` is called when a slave came, went or
        reported. `on_append`: who is called behind each append; senders are while there are any. `wires`: what is
        spoken here, if it is not the protocol of classic slaves. `opening`: whether who connects may, or must, speak
        TLS; None: streams are as they come (tests of this port)."""
        self._source = source
        self._clock = clock
        self._settings = settings
        self._members = members
        self._changed = changed
        self._on_append = on_append
        self._is_classic = wires is None
        self._wires = wires or (lambda end: ClassicWire(source, settings))
        self._warn = logs.Limited(log, clock, SAID_AGAIN_S)
        self._opening = opening
        self._acceptor: Acceptor[LogSender | TlsStream] = Acceptor(
            self._welcome, lambda stream: stream.connection_lost(None), clock, self._warn, "ha"
        )
        self._checks: set[asyncio.Task[None]] = set()
        self.senders: list[LogSender] = []
        self._away: dict[str, int] = {}  # by host or replica: where slaves that have left will go on
        self.member_hosts: list[str] = []  # of slaves, once for each; as they were known when somebody came last

    @property
    def settings(self) -> ReplicationSettings:
        return self._settings()

    @property
    def gathers(self) -> bool:
        """Return whether no send waits for slaves: what is appended may leave a moment later."""
        return self._is_classic and self.settings.broker_role is BrokerRole.ASYNC_MASTER

    def accept(self, listening: Listening) -> None:
        self._acceptor.accept_on(listening)

    async def close(self) -> None:
        """Take no more connections and end those that are there."""
        self._acceptor.close()
        await self._acceptor.joined()
        for check in self._checks:
            check.cancel()
        for sender in tuple(self.senders):
            sender.drop()

    # --- who may ----------------------------------------------------------------------------------------------------

    def _welcome(self, address: str) -> LogSender | TlsStream | None:
        sender, opening = self.welcome(address), self._opening
        if sender is None or opening is None:
            return sender

        def failed(fault: ProtocolError) -> ProtocolError:
            sender.say("TLS with it is not possible (haTls, tls.server.*, its certificate)", detail=str(fault))
            return fault

        return TlsStream(sender, failed, opening=opening)

    def welcome(self, address: str) -> LogSender | None:
        """Return a sender for whoever connects from this address; None: it is refused."""
        if len(self.senders) >= MOST_SLAVES:
            self._warn.warning("a slave is refused: too many are connected", slave=address, most=MOST_SLAVES)
            return None
        sender = LogSender(address, self._source, self._clock, self._warn, self, self._wires)
        self.senders.append(sender)
        self._watch()
        check = asyncio.get_running_loop().create_task(self._check(sender))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)
        return sender

    async def _check(self, sender: LogSender) -> None:
        host, _ = parse_address(sender.address)
        if is_allowed(host, self.settings.ha_allow, ()):
            sender.begin()  # whatever name servers say
        self.member_hosts = [parse_address(member)[0] for member in await self._members()]
        if not sender.is_held:
            self._changed()  # how many votes a host has is known now
        elif is_allowed(host, self.settings.ha_allow, self.member_hosts):
            sender.begin()
        else:
            sender.close(
                "strangers get no log. If it is a slave of this broker, name its address in haAllow, or let it "
                "register with the same name servers first"
            )

    # --- what senders tell ------------------------------------------------------------------------------------------

    def reported(self, sender: LogSender) -> None:
        self._changed()

    def closed(self, sender: LogSender) -> None:
        if sender in self.senders:
            self.senders.remove(sender)
            if sender.sent >= 0 and len(self._away) < MOST_SLAVES:
                self._away[sender.who] = sender.needs_from
            self._watch()
            self._changed()

    def wanted_from(self) -> int | None:
        """Return from where on a slave still needs the log; None: nobody does.

        One that has left counts until it is `haHoldBytes` behind, or this broker starts again."""
        here = [(sender.who, sender.needs_from) for sender in self.senders if sender.is_streaming]
        known = {who for who, _ in here}
        needs = [position for _, position in here] + [self._away[who] for who in self._away.keys() - known]
        least = self._source.end - self.settings.ha_hold_bytes
        return min((position for position in needs if position >= least), default=None)

    # --- appends ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Be called behind each append while somebody follows, and only then: a lone master pays nothing."""
        is_watching = self._appended in self._on_append
        if self.senders and not is_watching:
            self._on_append.append(self._appended)
        elif not self.senders and is_watching:
            self._on_append.remove(self._appended)

    def _appended(self) -> None:
        for sender in self.senders:
            sender.pump_soon()


def is_allowed(host: str, allowed: Iterable[str], members: Iterable[str]) -> bool:
    """Return whether a slave may connect from this host: `allowed` counts if it names any, else the members do."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if address.is_loopback:
        return True
    networks = [ip_network(one, strict=False) for one in allowed]
    return any(address in network for network in networks) if networks else host in members
