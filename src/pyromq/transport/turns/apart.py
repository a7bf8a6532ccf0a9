"""Administration apart from everything else: on a listener of its own, at another address (`adminListener`).

    apart = Apart()
    ordinary = apart.ordinary(handlers)          # refuses what administrators' tools alone send
    at_admin_listener = apart.administrative(handlers)
    apart.bound_to(listening, host)              # before either is asked

A row says whether a request is administration (`Row.is_administration`). A refusal names the setting to everybody, and
the address to known users and to programs of this machine alone: as a field too, by which our tools go there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...access.gate import source_of
from ...config import setting
from ...errors import ConfigError, RequestRefused
from ...model.codes import ResponseCode
from ...protocol.headers.admin import ADMIN_ADDRESS
from ...protocol.requests import ROWS
from ...protocol.row import AnyRow, RequestClass
from ..address import format_address, is_loopback, parse_address
from ..dispatch import Answer, Handler, Request
from ..listening import Listening, bind

_AT_ADMIN_LISTENER = (RequestClass.ADMIN, RequestClass.QUERY)  # and what tools look up: routes, offsets, messages
_ANY_HOST = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminListenerSettings:
    """Where administration is served. Brokers and name servers have it."""

    admin_listener: str = setting(
        "", flag=True, help="host:port of a listener that administration is served on, and nowhere else; empty: none"
    )

    def check_admin_listener(self, is_open: bool) -> None:
        """Raise ConfigError for what is no address, or one that others reach while nobody says who he is.

        `is_open`: whoever comes is asked who he is, or it was said that nobody need be."""
        if not self.admin_listener:
            return
        try:
            host, _ = parse_address(self.admin_listener)
        except ConfigError as fault:
            raise ConfigError(f"adminListener = {self.admin_listener}: {fault}") from None
        if not is_open and not is_loopback(host):
            raise ConfigError(
                f"adminListener = {self.admin_listener}: other machines might reach it, and nobody is asked who he is; "
                "set authenticationEnabled=true (docs/access.md), name an address of loopback, or, in a trusted "
                "network, start it with --insecure, or set allowUnauthenticated=true"
            )

    @property
    def admin_listeners(self) -> tuple[tuple[str, int], ...]:
        """Return host and port as they are set, if there is one."""
        return (parse_address(self.admin_listener),) if self.admin_listener else ()

    @property
    def admin_hosts(self) -> tuple[str, ...]:
        """Return under which host it is reached, where it has one of its own: a certificate names that too."""
        host = parse_address(self.admin_listener)[0] if self.admin_listener else _ANY_HOST[0]
        return () if host in _ANY_HOST else (host,)

    async def bind_admin_listener(self) -> Listening | None:
        """Bind it; None: there is none. ConfigError says why that cannot be."""
        if not self.admin_listener:
            return None
        try:
            return await bind(*parse_address(self.admin_listener))
        except ConfigError as fault:
            raise ConfigError(f"adminListener = {self.admin_listener}: {fault}") from None

    def check_apart(self, admin: Listening | None, ports: Mapping[str, Listening | None]) -> None:
        """Raise ConfigError where it is another port of this server: both can be bound, and one listen alone.

        `ports`: these, by what they are."""
        for what, other in ports.items():
            if admin is not None and other is not None and admin.meets(other):
                raise ConfigError(
                    f"adminListener = {self.admin_listener}: this is {what} of this server too, at {other.address}: "
                    "name another port"
                )


def _never(_: Request) -> bool:
    return False


@dataclass(slots=True, eq=False, repr=False)
class Apart:
    """Splits the handlers of a server. `address` is what those are told who may know it.

    `inner`: the user whom other servers of the cluster sign as: he may read on the ordinary listeners what Java's
    proxies ask brokers for. `harmless` lets a single administrative request pass there."""

    address: str = ""
    inner: str = ""
    harmless: Callable[[Request], bool] = _never

    def bound_to(self, listening: Listening, host: str) -> None:
        """Take the address of the listener. `host` is told where it listens on all of this machine's."""
        own, port = parse_address(listening.address)
        self.address = format_address(host if own in _ANY_HOST else own, port)

    def ordinary(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return the handlers of the ordinary listeners."""
        return {
            code: self._held_back(row, handler) if (row := ROWS[code]).is_administration else handler
            for code, handler in handlers.items()
        }

    def administrative(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return the handlers of the admin listener."""
        return {
            code: handler if (row := ROWS[code]).lane in _AT_ADMIN_LISTENER else _elsewhere(row)
            for code, handler in handlers.items()
        }

    def _held_back(self, row: AnyRow, handler: Handler) -> Handler:
        def held_back(request: Request) -> Answer:
            if row.only_reads and self.inner and request.principal.name == self.inner:
                return handler(request)
            if self.harmless(request):
                return handler(request)
            raise self._refusal(row, request)

        return held_back

    def _refusal(self, row: AnyRow, request: Request) -> RequestRefused:
        may_know = request.principal.is_known or is_loopback(source_of(request.peer.address))
        where = f" at {self.address}" if may_know else ""
        return RequestRefused(
            f"request {row} ({row.name}) is administration, which this server answers at its adminListener{where} and "
            f"nowhere else: name that to the tool (mqadmin -b {self.address if may_know else 'HOST:PORT'}; of a name "
            "server -n)",
            ResponseCode.NO_PERMISSION,
            {ADMIN_ADDRESS: self.address} if may_know else {},
        )


def _elsewhere(row: AnyRow) -> Handler:
    def elsewhere(_: Request) -> Answer:
        raise RequestRefused(
            f"request {row} ({row.name}) is not served here: this is the adminListener, which is for administration "
            "alone; send it to the address that clients use",
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        )

    return elsewhere
