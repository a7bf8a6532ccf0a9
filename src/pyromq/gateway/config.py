"""The settings of `pyromq proxy`: those of the endpoint, of every listener, and where the cluster is."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from ..config import IgnoredKeys, JavaKeys, RefusedKeys, check_ranges, setting
from ..config.parts import including, part_of
from ..errors import ConfigError
from ..proxy.config import NO_PORT, PORT, ProxySettings
from ..transport.settings import TransportSettings


@dataclass(frozen=True, slots=True, kw_only=True)
@including(ProxySettings)
class GatewayConfig(TransportSettings):
    """Java's names and defaults, except that the address is loopback."""

    bind_address: str = setting("127.0.0.1", help="address to listen on; Java's proxy listens on all")
    listen_port: int = setting(PORT, low=0, high=65535, help="port, unless grpcServerPort names it; 0 takes a free one")
    allow_unauthenticated: bool = setting(
        False, help="listen on other than loopback although nobody is asked who they are"
    )
    remoting_listen_port: int = setting(
        8080, low=NO_PORT, high=65535, flag=True, help="port of remoting clients; 0 takes a free one, -1 opens none"
    )
    remoting_access_addr: str = setting(
        "", help="host that remoting clients are told, if it is not the one listened on"
    )
    namesrv_addr: tuple[str, ...] = setting(
        ("127.0.0.1:9876",), flag=True, help="name servers of the cluster, host:port separated by ;"
    )
    shares_its_port: bool = setting(
        False, flag=True, help="other processes may listen on the same port (SO_REUSEPORT) and share its connections"
    )
    topic_route_service_cache_expired_in_seconds: int = setting(
        20, low=1, help="s that routes, types of topics and groups are kept; Java reads them anew every 20 s"
    )
    transaction_heartbeat_period_second: int = setting(
        20, low=1, help="s between two heartbeats that tell brokers whom to ask about transactions"
    )
    grpc_shutdown_time_seconds: int = setting(30, low=0, help="s for calls under way at a stop")

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.namesrv_addr:
            raise ConfigError("namesrvAddr is empty: name the cluster's name servers, host:port separated by ;")
        if not self.allow_unauthenticated and not _is_loopback(self.bind_address):
            raise ConfigError(
                f"bindAddress = {self.bind_address}: other machines might reach it, and there are no users and "
                "permissions yet; listen on 127.0.0.1, or, in a trusted network, start it with --insecure, or set "
                "allowUnauthenticated=true"
            )

    @property
    def port(self) -> int:
        given = self.endpoint.grpc_server_port
        return self.listen_port if given is None else max(given, 0)

    @property
    def endpoint(self) -> ProxySettings:
        return part_of(self, ProxySettings)

    @property
    def overlay_path(self) -> Path | None:
        """Return None: nothing is changed while it runs."""
        return None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


GATEWAY_KEYS = JavaKeys(
    RefusedKeys(
        "this is the gateway of a cluster; a broker has its own endpoint",
        "start `pyromq broker` or `pyromq up`",
        "proxyMode=cluster",
    ),
    IgnoredKeys(
        "it is the cluster of the name servers", "rocketMQClusterName= proxyClusterName= proxyName= localServeAddr="
    ),
    IgnoredKeys(
        "there are no thread pools here",
        """
        grpcThreadPoolNums= grpcThreadPoolQueueCapacity= grpcRouteThreadPoolNums= grpcRouteThreadQueueCapacity=
        grpcProducerThreadPoolNums= grpcProducerThreadQueueCapacity= grpcConsumerThreadPoolNums=
        grpcConsumerThreadQueueCapacity= grpcClientManagerThreadPoolNums= grpcClientManagerThreadQueueCapacity=
        grpcTransactionThreadPoolNums= grpcTransactionThreadQueueCapacity= grpcBossLoopNum= grpcWorkerLoopNum=
        enableGrpcEpoll=
        """,
    ),
    IgnoredKeys("renewals are timed each by itself, not scanned", "renewSchedulePeriodMillis=5000"),
    IgnoredKeys("every port takes remoting and HTTP/2", "enableRemotingLocalProxyGrpc=true"),
)
