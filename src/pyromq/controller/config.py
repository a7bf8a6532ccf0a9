"""The controller's settings, and what becomes of Java's other `controller.conf` keys.

`live` settings may be changed over the wire (request 1009); everything else needs a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..access.settings import AccessSettings
from ..audit.settings import AuditSettings
from ..config import IgnoredKeys, JavaKeys, RefusedKeys, check_ranges, setting
from ..config.parts import including, part_of
from ..coordination.settings import CoordinationSettings
from ..errors import ConfigError
from ..transport.address import format_address, parse_address, refuse_strangers
from ..transport.java_keys import CLIENT_KEYS, SERVER_KEYS, TLS_KEYS
from ..transport.settings import StrangerSettings, TransportSettings

# As in Java: these are refused with NO_PERMISSION whatever configBlackList says.
ALWAYS_BLACK = ("configBlackList", "configStorePath", "rocketmqHome")
PORT = 19876


def _default_store_path() -> Path:
    return Path.home() / "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
@including(CoordinationSettings)
@including(AuditSettings)
@including(AccessSettings)
@including(StrangerSettings)
class ControllerConfig(TransportSettings):
    """Java's names and defaults, except that the address is loopback and etcd remembers what Raft would."""

    bind_address: str = setting("127.0.0.1", help="address to listen on; Java listens on all")
    listen_port: int = setting(PORT, low=0, high=65535, help="port; 0 takes a free one")
    allow_unauthenticated: bool = setting(
        False, help="listen on other than loopback although nobody is asked who they are"
    )
    cluster_name: str = setting(
        "DefaultCluster", help="the cluster that policies must name for requests about this controller"
    )
    controller_dleger_group: str = setting(
        "pyromq", java="controllerDLegerGroup", flag=True, help="name of the controllers that stand in for each other"
    )
    controller_dleger_self_id: str = setting(
        "", java="controllerDLegerSelfId", flag=True, help="name of this one among them; empty: its address"
    )
    controller_dleger_peers: tuple[str, ...] = setting(
        (),
        java="controllerDLegerPeers",
        help="controllers as Java has them, n0-host:port separated by ;: the one of controllerDLegerSelfId is where "
        "brokers reach this one. The others are found in etcd",
    )
    controller_store_path: Path = setting(
        factory=_default_store_path,
        flag=True,
        help="folder for users, the audit log, changed settings and the certificate; nothing of sets",
    )
    config_black_list: tuple[str, ...] = setting(
        ("configBlackList", "configStorePath"), help="never changed over the wire"
    )
    scan_not_active_broker_interval: int = setting(
        5000, low=10, live=True, wide=True, help="milliseconds between two looks for silent brokers"
    )
    scan_inactive_master_interval: int = setting(
        5000, low=10, live=True, wide=True, help="milliseconds between two looks for sets whose master is not there"
    )
    elect_master_max_retry_count: int = setting(
        3, low=1, live=True, help="attempts to replace a master while etcd does not answer"
    )
    enable_elect_unclean_master: bool = setting(
        False, live=True, help="elect a replica that is not in sync where nobody else is there: loses messages"
    )
    notify_broker_role_changed: bool = setting(
        True, live=True, help="tell brokers of a new master at once (request 1008); else they ask every 5 s"
    )
    min_in_sync_replicas: int = setting(
        1, low=1, live=True, help="an in-sync set is never made smaller than this; Java's controller knows no minimum"
    )
    max_brokers: int = setting(10_000, low=1, live=True, help="brokers whose heartbeats are remembered")
    shutdown_wait_time_seconds: int = setting(
        30, low=0, help="how long a stop waits for requests in work and for peers that read slowly"
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        self.access.check_access()
        if not (self.allow_unauthenticated or self.access.authentication_enabled):
            refuse_strangers(self.bind_address, "set authenticationEnabled=true (docs/access.md), ")
        if "/" in self.controller_dleger_group + self.controller_dleger_self_id or not self.controller_dleger_group:
            raise ConfigError(
                f"controllerDLegerGroup = {self.controller_dleger_group}, controllerDLegerSelfId = "
                f"{self.controller_dleger_self_id}: a group has a name, and names have no slash"
            )
        if not self.own_peer and self.bind_address.strip("[]") in ("0.0.0.0", "::"):
            raise ConfigError(
                f"bindAddress = {self.bind_address}: brokers have to be told where this controller is; set "
                "controllerDLegerSelfId=n0 and controllerDLegerPeers=n0-HOST:PORT with its own address"
            )
        self.coordination.etcd()

    @property
    def coordination(self) -> CoordinationSettings:
        return part_of(self, CoordinationSettings)

    @property
    def access(self) -> AccessSettings:
        return part_of(self, AccessSettings)

    @property
    def users_path(self) -> Path:
        """Return the file of users and policies; the key that seals their passwords is beside it."""
        return self.controller_store_path / "access.json"

    @property
    def audit(self) -> AuditSettings:
        return part_of(self, AuditSettings)

    @property
    def audit_folder_unless_named(self) -> Path:
        """Return where the audit log is, if no folder is named for it."""
        return self.controller_store_path / "audit"

    @property
    def own_peer(self) -> str:
        """Return where brokers reach this controller, if controllerDLegerPeers says; else empty.

        ConfigError where the entry is missing, or listenPort is another port than it has."""
        if not self.controller_dleger_peers:
            return ""
        prefix = f"{self.controller_dleger_self_id}-"
        found = [peer.strip() for peer in self.controller_dleger_peers if peer.strip().startswith(prefix)]
        if not self.controller_dleger_self_id or len(found) != 1:
            raise ConfigError(
                f"controllerDLegerPeers = {';'.join(self.controller_dleger_peers)} names controllerDLegerSelfId = "
                f"{self.controller_dleger_self_id} {len(found)} times: write n0-host:port once for each controller"
            )
        host, port = parse_address(found[0].removeprefix(prefix))
        if self.listen_port not in (PORT, port):
            raise ConfigError(
                f"listenPort = {self.listen_port}, but controllerDLegerPeers says {port}: remove one of them"
            )
        return format_address(host, port)

    @property
    def port(self) -> int:
        """Return the port to listen on: as in Java the one of controllerDLegerPeers, if that is given."""
        return parse_address(self.own_peer)[1] if self.own_peer else self.listen_port

    @property
    def overlay_path(self) -> Path:
        """Return the file of changes made over the wire."""
        return self.controller_store_path / "controller-overlay.properties"

    @property
    def tls_folder(self) -> Path:
        """Return where a certificate is kept that the controller makes for itself."""
        return self.controller_store_path / "tls"

    @property
    def black_list(self) -> set[str]:
        return {*ALWAYS_BLACK, *self.config_black_list}


CONTROLLER_KEYS = JavaKeys(
    *SERVER_KEYS,
    CLIENT_KEYS,
    TLS_KEYS,
    IgnoredKeys(
        "there are no thread pools here", "controllerThreadPoolNums=16 controllerRequestThreadPoolQueueCapacity=50000"
    ),
    IgnoredKeys(
        "etcd keeps what Raft would keep",
        """
        controllerType=DLedger mappedFileSize=1073741824 jRaftGroupId= jRaftElectionTimeoutMs= jRaftServerId=
        jRaftScanWaitTimeoutMs= jRaftSnapshotIntervalSecs= jRaftInitConf= jRaftControllerRPCAddr= jraftConfig=
        """,
    ),
    IgnoredKeys("every read is as a majority of etcd has it", "isProcessReadEvent=false"),
    IgnoredKeys("nothing is read from an installation folder", "rocketmqHome="),
    IgnoredKeys(
        "this file is never rewritten; changes made over the wire are kept in controllerStorePath", "configStorePath="
    ),
    RefusedKeys(
        "controllers export no metrics yet",
        "leave metricsExporterType as it is",
        "metricsExporterType=DISABLE|0",
    ),
    IgnoredKeys(
        "controllers export no metrics yet",
        """
        metricsGrpcExporterTarget= metricsGrpcExporterHeader= metricGrpcExporterTimeOutInMills=3000
        metricGrpcExporterIntervalInMills=60000 metricLoggingExporterIntervalInMills=10000
        metricsPromExporterPort=5557 metricsPromExporterHost= metricsLabel= metricsInDelta=false
        """,
    ),
)
HIDDEN_KEYS = frozenset(JavaKeys(CLIENT_KEYS, TLS_KEYS).names())
