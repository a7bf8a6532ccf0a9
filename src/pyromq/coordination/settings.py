"""Settings by which a daemon finds the coordination store. Brokers of elected sets and controllers have them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..config import setting
from ..errors import ConfigError
from ..transport.tls import ClientTls
from .etcd_settings import EtcdSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinationSettings:
    """Where etcd is, and how we show who we are."""

    etcd_endpoints: tuple[str, ...] = setting(
        (), flag=True, help="members of etcd, http://host:2379 or https://host:2379, separated by ;"
    )
    etcd_prefix: str = setting("/pyromq", help="what all keys begin with")
    etcd_user: str = setting("", help="user of etcd; empty: it asks for none")
    etcd_password: str = setting("", help="and the password")
    etcd_trust_cert_path: Path | None = setting(None, help="who signs etcd's certificates; none: the system's CAs")
    etcd_cert_path: Path | None = setting(None, help="the certificate that we show to etcd")
    etcd_key_path: Path | None = setting(None, help="and its key")

    def __post_init__(self) -> None:
        if self.etcd_endpoints:
            try:
                EtcdSettings(endpoints=self.etcd_endpoints)
            except ConfigError as fault:
                raise ConfigError(f"etcdEndpoints = {';'.join(self.etcd_endpoints)}: {fault}") from None

    def etcd(self) -> EtcdSettings:
        """Return how etcd is reached. ConfigError if no member is named, or what is named does not fit together."""
        if not self.etcd_endpoints:
            raise ConfigError("etcdEndpoints is empty: name the members of etcd, http://host:2379 separated by ;")
        files = (self.etcd_trust_cert_path, self.etcd_cert_path, self.etcd_key_path)
        tls = None
        if any(file is not None for file in files):
            tls = ClientTls(ca=self.etcd_trust_cert_path, certificate=self.etcd_cert_path, key=self.etcd_key_path)
        return EtcdSettings(endpoints=self.etcd_endpoints, tls=tls, user=self.etcd_user, password=self.etcd_password)
