"""Where etcd is and how it is reached, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ..errors import ConfigError
from ..transport.address import format_address, parse_address
from ..transport.tls import ClientTls


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdSettings:
    """Every member of etcd that may be asked, by `http://host:port` or `https://host:port`, all of one kind."""

    endpoints: tuple[str, ...]
    tls: ClientTls | None = None  # for https; None: the system's own CAs, the full check
    user: str = ""
    password: str = field(default="", repr=False)
    attempt_s: float = 1.0  # for one answer of one member, connecting included
    watch_silence_s: float = 20.0  # a watch that is silent for so long is begun anew, at the next member

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise ConfigError("no address of etcd is named: write http://host:2379, several with ; between")
        schemes = {urlsplit(endpoint).scheme for endpoint in self.endpoints}
        if schemes - {"http", "https"}:
            raise ConfigError("write each address of etcd as http://host:2379 or https://host:2379, with ; between")
        if len(schemes) > 1:
            raise ConfigError("all addresses of etcd have to be http, or all https")
        if self.tls is not None and schemes == {"http"}:
            raise ConfigError("TLS is set for etcd, but its addresses begin with http: write https://host:2379")
        if bool(self.user) != bool(self.password):
            raise ConfigError("a user of etcd needs a password and the other way round: set both or none")
        if self.attempt_s <= 0 or self.watch_silence_s <= 0:
            raise ConfigError(
                f"attempt_s={self.attempt_s:g}, watch_silence_s={self.watch_silence_s:g}: both have to be > 0"
            )
        _ = self.addresses  # raises for what is none

    @property
    def is_encrypted(self) -> bool:
        return self.endpoints[0].startswith("https:")

    @property
    def addresses(self) -> tuple[str, ...]:
        """`host:port` of each endpoint. Raises ConfigError for what is none."""
        return tuple(format_address(*parse_address(urlsplit(endpoint).netloc)) for endpoint in self.endpoints)
