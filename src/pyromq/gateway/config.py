"""The settings of `pyromq proxy`: those of the endpoint, of every listener, and where the cluster is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..access.settings import GateSettings
from ..audit.settings import AuditSettings
from ..config import check_ranges, setting
from ..config.parts import including, part_of
from ..errors import ConfigError
from ..metrics.settings import MetricsSettings
from ..proxy.config import NO_PORT, PORT, ProxySettings
from ..transport.address import refuse_strangers
from ..transport.settings import StrangerSettings, TransportSettings


@dataclass(frozen=True, slots=True, kw_only=True)
@including(ProxySettings)
@including(AuditSettings)
@including(GateSettings)
@including(MetricsSettings)
@including(StrangerSettings)
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
    certificate_folder: str = setting(
        "", flag=True, help="folder for the certificate that it makes for itself where none is named; ~/proxy/tls"
    )
    topic_route_service_cache_refresh_seconds: int = setting(20, low=1, help="s that a topic's route is kept")
    topic_route_service_cache_max_num: int = setting(20_000, low=1, help="routes that are kept")
    topic_config_cache_refresh_seconds: int = setting(20, low=1, help="s that a topic's type is kept")
    topic_config_cache_max_num: int = setting(20_000, low=1, help="types that are kept")
    subscription_group_config_cache_refresh_seconds: int = setting(20, low=1, help="s that a group is kept")
    subscription_group_config_cache_max_num: int = setting(20_000, low=1, help="groups that are kept")
    user_cache_refresh_seconds: int = setting(
        20, low=1, help="s that a user of a broker which shares none (Apache's) is kept, with his policies"
    )
    user_cache_expired_seconds: int = setting(300, low=1, help="s without a request after which he is forgotten")
    user_cache_max_num: int = setting(20_000, low=1, help="such users that are kept")
    enable_acl_rpc_hook_for_cluster_mode: bool = setting(
        False,
        help="requests to the cluster must be signed: innerClientAuthenticationCredentials has to be set",
    )
    channel_expired_timeout: int = setting(
        120_000, low=1_000, help="ms without a heartbeat after which a client is forgotten, here or at another gateway"
    )
    rocket_mq_cluster_name: str = setting(
        "DefaultCluster", java="rocketMQClusterName", help="cluster whose brokers have the topic below"
    )
    heartbeat_syncer_topic_name: str = setting(
        "DefaultHeartBeatSyncerTopic",
        help="topic by which gateways and Java's proxies tell each other their consumers; empty: they do not",
    )
    heartbeat_syncer_topic_cluster_name: str = setting(
        "", help="cluster for that topic, if it is not rocketMQClusterName"
    )
    local_serve_addr: str = setting("", help="our address among the gateways; not given: the one that is listened on")
    region_id: str = setting("", help="MSG_REGION in answers to remoting clients")
    trace_on: bool = setting(False, help="TRACE_ON in these: whether such clients trace")
    tls_test_mode_enable: bool = setting(
        True,
        java="tls.test.mode.enable",
        also=("tlsTestModeEnable",),
        help="without a certificate, make one that is self-signed, and keep it",
    )
    tls_server_cert_path: Path | None = setting(
        None, java="tls.server.certPath", also=("tlsCertPath",), help="our certificate"
    )
    tls_server_key_path: Path | None = setting(
        None, java="tls.server.keyPath", also=("tlsKeyPath",), help="and its key"
    )
    tls_server_key_password: str | None = setting(
        None, java="tls.server.keyPassword", also=("tlsKeyPassword",), help="password of the key"
    )
    transaction_heartbeat_period_second: int = setting(
        20, low=1, help="s between two heartbeats that tell brokers whom to ask about transactions"
    )
    grpc_shutdown_time_seconds: int = setting(30, low=0, help="s for calls under way at a stop")

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.namesrv_addr:
            raise ConfigError("namesrvAddr is empty: name the cluster's name servers, host:port separated by ;")
        self._check_users()
        if not (self.allow_unauthenticated or self.access.authentication_enabled):
            refuse_strangers(self.bind_address, "set authenticationEnabled=true (docs/access.md), ")

    def _check_users(self) -> None:
        access = self.access
        access.check_access()
        access.check_white_lists(self.endpoint.why_no_white_lists())
        inner = access.inner_credentials()
        if inner is None and self.enable_acl_rpc_hook_for_cluster_mode:
            raise ConfigError(
                "enableAclRpcHookForClusterMode = true: requests to the cluster are signed with "
                "innerClientAuthenticationCredentials here, not with conf/tools.yml; set these"
            )
        if inner is None and access.authentication_enabled and access.first_user() is None:
            raise ConfigError(
                "authenticationEnabled = true: the users are those of the cluster, which tells of them who has its "
                "innerClientAuthenticationCredentials; set these"
            )
        if inner is not None and not (access.authentication_enabled or self.allow_unauthenticated):
            raise ConfigError(
                "innerClientAuthenticationCredentials without authenticationEnabled: whoever reaches it could "
                "do everything at the brokers; set authenticationEnabled=true or, where all are trusted, --insecure"
            )

    @property
    def port(self) -> int:
        given = self.endpoint.grpc_server_port
        return self.listen_port if given is None else max(given, 0)

    @property
    def endpoint(self) -> ProxySettings:
        return part_of(self, ProxySettings)

    @property
    def access(self) -> GateSettings:
        return part_of(self, GateSettings)

    @property
    def metrics(self) -> MetricsSettings:
        return part_of(self, MetricsSettings)

    @property
    def syncer_cluster(self) -> str:
        return self.heartbeat_syncer_topic_cluster_name or self.rocket_mq_cluster_name

    @property
    def tls_folder(self) -> Path:
        """Return where a certificate is kept that the gateway makes for itself."""
        return Path(self.certificate_folder) if self.certificate_folder else Path.home() / "proxy" / "tls"

    @property
    def audit(self) -> AuditSettings:
        return part_of(self, AuditSettings)

    @property
    def audit_folder_unless_named(self) -> Path:
        """Return where the audit log is, if no folder is named for it."""
        return self.tls_folder.with_name("audit")

    @property
    def overlay_path(self) -> Path | None:
        """Return None: nothing is changed while it runs."""
        return None
