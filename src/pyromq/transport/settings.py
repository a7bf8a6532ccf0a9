"""Settings that every daemon with a listener has: limits of `limits.py` and TLS of `tls.py`, under RocketMQ's keys.

A daemon's own configuration inherits these, so that they are declared, read and documented once. Java reads the TLS
keys from a file of their own; here they stand among the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..config import setting
from ..config.parts import part_of
from ..errors import ConfigError
from ..logs import EventLog
from ..machine.budget import Budget
from ..protocol.frame import MOST_HEADER_BYTES, FrameLimits
from ..protocol.properties import MAX_PROPERTIES_BYTES
from .address import warn_of_strangers
from .limits import Limits, StrangerLimits
from .tls import Certificates, ClientCertificates, ClientTls, ServerTls, TlsMode, Verify, opening

_HELD_SHARE = 8  # of memory: the rest is the page cache's, the tables' and the program's
_LEAST_HELD, _MOST_HELD = 32 << 20, 4 << 30
_MOST_STRANGE = 64 << 20
_ONE_PEER_SHARE = 8  # of that: the requests of one connection pause before they are most of it

SELF_SIGNED = "self-signed.pem"  # key and certificate that a daemon makes for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class StrangerSettings:
    """What those may cost who have not shown who they are. Only daemons have it that ask for that."""

    stranger_seconds: int = setting(
        30, low=1, help="s from accepting a connection to its first accepted request, while authentication is on"
    )
    stranger_header_max_length: int = setting(
        64 << 10, low=1024, high=MOST_HEADER_BYTES, help="bytes of a header until a connection has shown who it is"
    )
    stranger_header_max_fields: int = setting(128, low=16, help="fields of such a header")
    stranger_bytes: int = setting(
        0,
        low=0,
        wide=True,
        help="bytes held for all such connections; 0: a quarter of heldBytes, 64 MiB at most, a frame at least",
    )
    stranger_connections: int = setting(4096, low=1, help="such connections; never more than half of all there may be")
    stranger_connections_per_address: int = setting(256, low=1, help="such connections of one host")
    stranger_refusals: int = setting(100, low=1, help="refused requests after which such a connection is closed")

    def within(self, limits: Limits, body_bytes: int) -> Limits:
        """Return these limits with those of strangers, whose first request may have so large a body."""
        header_bytes = min(self.stranger_header_max_length, limits.frame.header_bytes)
        frame = FrameLimits(
            frame_bytes=min(limits.frame.frame_bytes, body_bytes + header_bytes + 4),
            header_bytes=header_bytes,
            header_fields=min(self.stranger_header_max_fields, limits.frame.header_fields),
        )
        if 0 < self.stranger_bytes < frame.frame_bytes:
            raise ConfigError(
                f"strangerBytes = {self.stranger_bytes}: the first request of a connection may have "
                f"{frame.frame_bytes} bytes; set so much at least, or 0"
            )
        held_bytes = self.stranger_bytes or max(frame.frame_bytes, min(limits.held_bytes // 4, _MOST_STRANGE))
        strangers = StrangerLimits(
            frame=frame,
            seconds=self.stranger_seconds,
            held_bytes=held_bytes,
            connections=self.stranger_connections,
            connections_per_address=self.stranger_connections_per_address,
            refusals=self.stranger_refusals,
        )
        return replace(limits, strangers=strangers)


def served_limits(config: TransportSettings, memory_bytes: int, *, asks: bool) -> Limits:
    """Return the limits of a daemon, which has `StrangerSettings` too. `asks`: everybody is asked who he is."""
    limits = config.limits(memory_bytes)
    return part_of(config, StrangerSettings).within(limits, config.frame_max_length) if asks else limits


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """What a daemon allows its peers, and how it speaks to them."""

    server_channel_max_idle_time_seconds: int = setting(
        120, low=1, help="a connection that neither read nor wrote for so long is closed"
    )
    frame_max_length: int = setting(
        16 << 20,
        java="com.rocketmq.remoting.frameMaxLength",
        low=1024,
        high=(1 << 31) - 1,
        help="bytes of the largest frame",
    )
    header_max_length: int = setting(1 << 20, low=1024, high=MOST_HEADER_BYTES, help="bytes of its header")
    header_max_fields: int = setting(1024, low=16, help="number of fields in a header")
    property_max_length: int = setting(
        MAX_PROPERTIES_BYTES, low=1, high=MAX_PROPERTIES_BYTES, help="bytes of a message's properties; more are refused"
    )
    max_connections: int = setting(
        0, low=0, help="connections of a listener; 0: as many as there are files left for it"
    )
    max_connections_per_address: int = setting(0, low=0, help="connections of one host; 0: no limit")
    reserved_descriptors: int = setting(
        0, low=0, help="files that connections leave for everything else; 0: shares by ulimit -n"
    )
    connection_opening_seconds: int = setting(30, low=1, help="from accepting a connection to its first whole frame")
    frame_seconds: int = setting(60, low=1, help="from the first byte of a frame to its last")
    blocked_seconds: int = setting(60, low=1, help="how long a peer may leave its answers unread")
    write_buffer_high_water_mark: int = setting(
        0, low=0, help="unread bytes above which a peer is not served on; 0 takes 1 MiB"
    )
    write_buffer_max_bytes: int = setting(
        64 << 20, low=1, wide=True, help="unread bytes above which a peer's connection is closed"
    )
    unfinished_requests: int = setting(1024, low=1, help="requests of one connection in work; reading pauses")
    unfinished_bytes: int = setting(32 << 20, low=1, wide=True, help="bytes of these")
    held_bytes: int = setting(
        0,
        low=0,
        wide=True,
        help="bytes held for all peers together; 0: an eighth of the memory we may use, from 32 MiB to 4 GiB",
    )
    queued_requests: int = setting(10_000, low=1, help="waiting requests of one class; further ones get SYSTEM_BUSY")
    loop_hold_ms: int = setting(
        20, low=1, help="ms that one request may hold the event loop before it is counted and logged"
    )
    tls_server_mode: TlsMode = setting(
        TlsMode.PERMISSIVE, java="tls.server.mode", help="permissive takes plain and TLS connections on one port"
    )
    tls_test_mode_enable: bool = setting(
        True, java="tls.test.mode.enable", help="without a certificate, make one that is self-signed, and keep it"
    )
    tls_server_cert_path: Path | None = setting(None, java="tls.server.certPath", help="our certificate")
    tls_server_key_path: Path | None = setting(None, java="tls.server.keyPath", help="and its key")
    tls_server_key_password: str | None = setting(None, java="tls.server.keyPassword", help="password of the key")
    tls_server_trust_cert_path: Path | None = setting(
        None, java="tls.server.trustCertPath", help="who signs the certificates of peers"
    )
    tls_server_need_client_auth: ClientCertificates = setting(
        ClientCertificates.NONE, java="tls.server.need.client.auth", help="whether peers must show a certificate"
    )
    tls_enable: bool = setting(False, java="tls.enable", help="TLS for connections that we make")
    tls_client_auth_server: bool = setting(
        False, java="tls.client.authServer", help="check that our CA signed the other's certificate"
    )
    tls_client_trust_cert_path: Path | None = setting(
        None, java="tls.client.trustCertPath", help="that CA; none: the system's"
    )
    tls_client_cert_path: Path | None = setting(None, java="tls.client.certPath", help="the certificate that we show")
    tls_client_key_path: Path | None = setting(None, java="tls.client.keyPath", help="and its key")
    tls_client_key_password: str | None = setting(None, java="tls.client.keyPassword", help="password of the key")

    def limits(self, memory_bytes: int = Budget().memory_bytes) -> Limits:
        """Return the limits. Peers get a share of `memory_bytes`, which this process may use, where no setting says."""
        held_bytes = self.held_bytes or max(_LEAST_HELD, min(memory_bytes // _HELD_SHARE, _MOST_HELD))
        return Limits(
            frame=FrameLimits(
                frame_bytes=self.frame_max_length,
                header_bytes=self.header_max_length,
                header_fields=self.header_max_fields,
            ),
            property_bytes=self.property_max_length,
            connections=self.max_connections or None,
            connections_per_address=self.max_connections_per_address or None,
            idle_s=self.server_channel_max_idle_time_seconds,
            opening_s=self.connection_opening_seconds,
            frame_s=self.frame_seconds,
            blocked_s=self.blocked_seconds,
            write_high_bytes=self.write_buffer_high_water_mark or Limits().write_high_bytes,
            write_max_bytes=self.write_buffer_max_bytes,
            unfinished_requests=self.unfinished_requests,
            unfinished_bytes=min(self.unfinished_bytes, max(1, held_bytes // _ONE_PEER_SHARE)),
            held_bytes=held_bytes,
            queued_requests=self.queued_requests,
            loop_hold_ms=self.loop_hold_ms,
        )

    @property
    def makes_certificate(self) -> bool:
        """Return whether a daemon with these settings makes a certificate for itself, or uses the one it made."""
        is_configured = self.tls_server_cert_path or self.tls_server_key_path
        return not is_configured and self.tls_server_mode is not TlsMode.DISABLED and self.tls_test_mode_enable

    def check_tls(self) -> None:
        """Load all TLS files that are named, to nobody's use. ConfigError if one cannot be used."""
        if not self.makes_certificate:
            opening(self.server_tls())
        if (client := self.client_tls()) is not None:
            Certificates(client)

    @property
    def danger_of_strangers(self) -> str:
        """Return what others may do who reach a listener, where nobody is asked who he is."""
        who = "whoever reaches it"
        if self.tls_server_mode is TlsMode.ENFORCING and self.tls_server_need_client_auth is ClientCertificates.REQUIRE:
            who = "who has a certificate that tls.server.trustCertPath vouches for"
        return f"{who} may read, write and administrate everything: nobody is asked who he is"

    def warn_of_strangers(self, log: EventLog, *listeners: tuple[str, int]) -> None:
        """Say at a start which of these listeners others reach, where nobody is asked who he is (`--insecure`)."""
        for host, port in listeners:
            warn_of_strangers(log, host, port, self.danger_of_strangers)

    def key_files(self, own: Path) -> list[Path | None]:
        """Return where keys of TLS are, also the one that a daemon makes for itself in the folder `own`."""
        return [self.tls_server_key_path, self.tls_client_key_path, own / SELF_SIGNED]

    def server_tls(self) -> ServerTls | None:
        """Return the listener's TLS; None without a certificate. ConfigError if enforced, or one file is missing."""
        if self.tls_server_cert_path is None or self.tls_server_key_path is None:
            if self.tls_server_mode is TlsMode.ENFORCING or self.tls_server_cert_path or self.tls_server_key_path:
                raise ConfigError(
                    f"tls.server.mode = {self.tls_server_mode.value} with tls.server.certPath = "
                    f"{self.tls_server_cert_path} and tls.server.keyPath = {self.tls_server_key_path}: "
                    "TLS needs both files"
                )
            return None
        return ServerTls(
            mode=self.tls_server_mode,
            certificate=self.tls_server_cert_path,
            key=self.tls_server_key_path,
            key_password=self.tls_server_key_password,
            ca=self.tls_server_trust_cert_path,
            client_certificates=self.tls_server_need_client_auth,
        )

    def client_tls(self) -> ClientTls | None:
        return self.own_client_tls() if self.tls_enable else None

    def own_client_tls(self) -> ClientTls:
        """Return how this daemon speaks TLS to others, whether `tls.enable` is set or not."""
        return ClientTls(
            verify=Verify.CA if self.tls_client_auth_server else Verify.NONE,
            ca=self.tls_client_trust_cert_path,
            certificate=self.tls_client_cert_path,
            key=self.tls_client_key_path,
            key_password=self.tls_client_key_password,
        )
