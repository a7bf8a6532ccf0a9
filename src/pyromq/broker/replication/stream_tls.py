"""TLS of replication streams (`haTls`): the master's side at its HA port, and the side of whoever follows it.

Certificates are the daemon's own, and are looked at again with each connection. Pure but for reading them.
"""

from __future__ import annotations

from dataclasses import replace

from ...ambient import Clock
from ...errors import ConfigError
from ...transport.client import Connect
from ...transport.settings import TransportSettings
from ...transport.tls import Certificates, ClientTls, Opening, TlsMode, opening
from ...transport.tls_stream import secured
from .settings import HaTls


def port_opening(transport: TransportSettings, ha_tls: HaTls) -> Opening:
    """Return how the HA port takes connections. ConfigError: TLS is required and cannot be."""
    tls = None if transport.tls_server_mode is TlsMode.DISABLED else transport.server_tls()
    if ha_tls is HaTls.REQUIRED:
        if tls is None:
            raise ConfigError(
                "haTls = required: there is no certificate for it. Name tls.server.certPath and tls.server.keyPath, or "
                "leave tls.server.mode and tls.test.mode.enable as they are, and one is made"
            )
        return opening(replace(tls, mode=TlsMode.ENFORCING))
    return opening(None if tls is None else replace(tls, mode=TlsMode.PERMISSIVE))


def follower_connect(connect: Connect, clock: Clock, transport: TransportSettings, ha_tls: HaTls) -> Connect:
    """Return how a master's HA port is connected to. ConfigError: the files of TLS cannot be used."""
    return connect if ha_tls is HaTls.OFF else connect_by_tls(connect, clock, transport.own_client_tls())


def connect_by_tls(connect: Connect, clock: Clock, tls: ClientTls) -> Connect:
    """Return how an HA port is connected to by TLS. ConfigError: its files cannot be used."""
    return secured(connect, Certificates(tls), clock, cure)


def cure(reason: str) -> str:
    """Say what to do where TLS with a master failed for this reason."""
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        if "expired" in reason or "not yet valid" in reason:
            return (
                "The master's certificate is past its time, or a clock is wrong. Renew it there (pyromq tls); no "
                "restart is needed"
            )
        return (
            "Nobody whom this broker trusts has signed the master's certificate: name who did, tls.client.trustCertPath"
        )
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return (
            "The master does not take the certificate of this broker: tls.client.certPath and tls.client.keyPath name "
            "one, which must be signed by whom the master trusts and not be past its time"
        )
    return "The HA port there may speak no TLS, as those of Java's masters: then set haTls=off here"
