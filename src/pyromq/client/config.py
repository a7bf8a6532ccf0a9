"""Settings of a client, checked before anything opens. Durations are seconds."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from ..errors import ConfigError
from ..model import names
from ..transport.address import parse_address
from ..transport.tls import ClientTls
from .values import JSON, Codec, check_codec

DEFAULT_NAME_SERVER = "127.0.0.1:9876"
# Ours first, then the variable that RocketMQ's own clients read.
NAME_SERVER_VARIABLES = ("PYROMQ_NAMESRV", "NAMESRV_ADDR")
_SEPARATOR = "%"
_PREFIXES = (names.RETRY_PREFIX, names.DLQ_PREFIX)
CREDENTIAL_VARIABLES = {"access_key": "PYROMQ_ACCESS_KEY", "secret_key": "PYROMQ_SECRET_KEY"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """One client: its connections serve all its producers and consumers."""

    name_servers: tuple[str, ...]
    endpoints: str = ""  # of the gRPC protocol (`host:8081`), in place of name servers
    instance: str = ""  # tells apart clients of one process; brokers know a client as `ip@instance`
    tls: ClientTls | None = None
    call_timeout_s: float = 3.0
    name_server_timeout_s: float = 3.0
    name_server_patience_s: float = 1.0  # for one that others could stand in for
    route_refresh_s: float = 30.0
    heartbeat_s: float = 30.0
    trouble_pause_s: float = 1.0  # between two looks at routes and brokers while calls fail
    namespace: str = ""  # goes before the names of topics and groups: `ns%orders`
    access_key: str = ""  # with secret_key: every request is signed
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)  # of a temporary access key
    vip_channel: bool = False  # producers send to the broker's second port (its number less 2)
    trace: bool | str = False  # write traces: True into RocketMQ's own topic, or the name of another one
    codec: Codec = JSON  # how values become bodies, and bodies values

    def __post_init__(self) -> None:
        if not self.name_servers:
            raise ConfigError(f"no name server is given: connect({DEFAULT_NAME_SERVER!r}), or set PYROMQ_NAMESRV")
        for address in self.name_servers:
            parse_address(address)
        if self.tls is not None and not isinstance(self.tls, ClientTls):
            raise ConfigError(f"tls = {self.tls!r}: write tls=pyromq.ClientTls(), or leave it out")
        for name in ("instance", "endpoints", "namespace", "access_key", "secret_key", "security_token"):
            kinds = str if name in ("instance", "endpoints") else str | None  # None, as environments have it: not given
            if not isinstance(getattr(self, name), kinds):
                raise ConfigError(f"{name}: a text is needed, and not a {type(getattr(self, name)).__name__}")
        if not isinstance(self.trace, bool | str | None):
            raise ConfigError(f"trace = {self.trace!r}: True, False or the name of a topic is needed")
        if self.trace_topic is not None and (fault := names.topic_fault(self.trace_topic)) is not None:
            raise ConfigError(f"trace: {fault}")
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError("access_key and secret_key belong together: give both, or none of them")
        if self.namespace and (fault := names.group_fault(self.namespace)) is not None:
            raise ConfigError(f"namespace: {fault}")
        check_codec(self.codec)
        for name in (each.name for each in fields(self) if each.name.endswith("_s")):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
                raise ConfigError(f"{name} = {value!r}: a number of seconds above 0 is needed")

    @property
    def trace_topic(self) -> str | None:
        """The topic that traces go to; None if nothing is traced."""
        return (names.TRACE_TOPIC if self.trace is True else self.trace) or None


def name_servers(given: str | Iterable[str] | None, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the argument (`host:port;host:port` or a list), else the environment's, else this machine's."""
    if given is None:
        given = next((environment[name] for name in NAME_SERVER_VARIABLES if environment.get(name)), "")
    parts = given.replace(",", ";").split(";") if isinstance(given, str) else _addresses(given)
    return tuple(part.strip() for part in parts if part.strip()) or (DEFAULT_NAME_SERVER,)


def _addresses(given: Iterable[str]) -> list[str]:
    parts: list[str] = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(part, str) for part in parts):
        raise ConfigError(
            f"namesrv = {given!r}: the addresses of name servers are needed, as text ({DEFAULT_NAME_SERVER!r}, several "
            "with ; between them) or as a list of texts"
        )
    return parts


def credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment's access key and secret, for a client that was given none."""
    found = {name: environment.get(variable, "") for name, variable in CREDENTIAL_VARIABLES.items()}
    return {name: value for name, value in found.items() if value}


def own_ip(towards: str) -> str:
    """Return the address of this machine that packets to the other one carry. Nothing is sent."""
    host, port = parse_address(towards)
    name = host.encode() if host.isascii() else host  # of a text Python prepares for all of Unicode: a millisecond
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_DGRAM)
        with socket.socket(found[0][0], socket.SOCK_DGRAM) as probe:
            probe.connect(found[0][4])
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"  # no way there: the first call will say so in better words


# --- namespaces, as Java's clients write them into names: `ns%orders`, `%RETRY%ns%billing` ----------------------------
# Users say and see names without; everything that goes over the wire has them. Brokers know nothing of them.


def with_namespace(namespace: str, name: str) -> str:
    """Return a topic's or group's name on the wire. System topics, which are everybody's, and reply topics stay."""
    if not namespace or not name or _is_common(name):
        return name
    prefix, bare = _parts(name)
    inside = namespace + _SEPARATOR
    return name if bare.startswith(inside) else f"{prefix}{inside}{bare}"


def without_namespace(namespace: str, name: str) -> str:
    """Return the name as its user wrote it; names of other namespaces stay whole."""
    if not namespace:
        return name
    prefix, bare = _parts(name)
    return prefix + bare.removeprefix(namespace + _SEPARATOR)


def _parts(name: str) -> tuple[str, str]:
    prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
    return prefix, name[len(prefix) :]


def _is_common(name: str) -> bool:
    return names.is_system_topic(name) or names.is_system_group(name) or name.endswith(names.REPLY_SUFFIX)
