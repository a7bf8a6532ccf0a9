"""The name server's settings, and what becomes of Java's other `namesrv.conf` keys.

`live` settings may be changed over the wire (request 318); everything else needs a restart. Must never hold a setting
that nothing reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..access.settings import AccessSettings
from ..audit.settings import AuditSettings
from ..config import IgnoredKeys, JavaKeys, RefusedKeys, check_ranges, setting
from ..config.parts import including, part_of
from ..metrics.settings import MetricsSettings
from ..transport.address import refuse_strangers
from ..transport.java_keys import CLIENT_KEYS, SERVER_KEYS, TLS_KEYS
from ..transport.settings import StrangerSettings, TransportSettings
from ..transport.turns.apart import AdminListenerSettings

# As in Java: these are refused with NO_PERMISSION whatever configBlackList says.
ALWAYS_BLACK = ("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome")


def _default_kv_path() -> Path:
    return Path.home() / "namesrv" / "kvConfig.json"


@dataclass(frozen=True, slots=True, kw_only=True)
@including(AuditSettings)
@including(AccessSettings)
@including(MetricsSettings)
@including(AdminListenerSettings)
@including(StrangerSettings)
class NamesrvConfig(TransportSettings):
    """Java's names and defaults, except that the address is loopback and order topics keep their queues."""

    bind_address: str = setting("127.0.0.1", help="address to listen on; Java's default is 0.0.0.0")
    listen_port: int = setting(9876, low=0, high=65535, help="port; 0 takes a free one")
    allow_unauthenticated: bool = setting(
        False, help="listen on other than loopback although nobody is asked who they are"
    )
    cluster_name: str = setting(
        "DefaultCluster", help="the cluster that policies must name for requests about this name server as a whole"
    )
    metrics_prom_exporter_port: int = setting(
        5558, low=0, high=65535, flag=True, help="port of /metrics, one above a broker's; 0 takes a free one"
    )
    kv_config_path: Path = setting(factory=_default_kv_path, flag=True, help="where KV configuration is kept")
    config_black_list: tuple[str, ...] = setting(
        ("configBlackList", "configStorePath", "kvConfigPath"), help="never changed over the wire"
    )
    scan_not_active_broker_interval: int = setting(
        5000, low=10, live=True, wide=True, flag=True, help="milliseconds between two looks for silent brokers"
    )
    order_message_enable: bool = setting(
        True, live=True, help="routes carry the order configuration of ordered topics; off in Java"
    )
    return_order_topic_config_to_broker: bool = setting(
        True, live=True, help="registrations are answered with all order configurations"
    )
    support_acting_master: bool = setting(
        False, live=True, help="the smallest slave stands in routes for a master that is lost"
    )
    notify_min_broker_id_changed: bool = setting(
        False, live=True, help="tell the replicas of a broker when their smallest id changes"
    )
    delete_topic_with_broker_registration: bool = setting(
        False, live=True, help="topics that a broker no longer registers are dropped"
    )
    enable_all_topic_list: bool = setting(True, live=True, help="answer request 206")
    enable_topic_list: bool = setting(True, live=True, help="answer the other lists of topics")
    need_wait_for_service: bool = setting(False, live=True, help="answer no route before brokers had time to register")
    wait_seconds_for_service: int = setting(45, low=0, live=True, help="that time")
    # What may be kept here: ours alone, and a refusal names it.
    max_brokers: int = setting(10_000, low=1, live=True, help="replicas of brokers that may be registered")
    max_topics: int = setting(500_000, low=1, live=True, help="topics that may be registered")
    max_kv_bytes: int = setting(8 << 20, low=1 << 10, live=True, help="bytes of all KV configuration")
    max_kv_namespaces: int = setting(1_000, low=1, live=True, help="namespaces of KV configuration")
    max_kv_entries_per_namespace: int = setting(50_000, low=1, live=True, help="entries of a namespace")
    max_kv_key_length: int = setting(
        1_024, low=1, live=True, help="characters of a key or a namespace of KV configuration"
    )
    max_kv_value_length: int = setting(256 << 10, low=1, live=True, help="characters of a value of KV configuration")
    shutdown_wait_time_seconds: int = setting(
        30, low=0, help="how long a stop waits for requests in work and for peers that read slowly"
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        self.access.check_access()
        is_open = self.allow_unauthenticated or self.access.authentication_enabled
        self.administration.check_admin_listener(is_open)
        if not is_open:
            refuse_strangers(self.bind_address, "set authenticationEnabled=true (docs/access.md), ")

    @property
    def access(self) -> AccessSettings:
        return part_of(self, AccessSettings)

    @property
    def administration(self) -> AdminListenerSettings:
        return part_of(self, AdminListenerSettings)

    @property
    def users_path(self) -> Path:
        """Return the file of users and policies; the key that seals their passwords is beside it."""
        return self.kv_config_path.with_name("access.json")

    @property
    def metrics(self) -> MetricsSettings:
        return part_of(self, MetricsSettings)

    @property
    def overlay_path(self) -> Path:
        """Return the file of changes made over the wire. Not Java's configStorePath: that is the user's own file."""
        return self.kv_config_path.with_name("namesrv-overlay.properties")

    @property
    def tls_folder(self) -> Path:
        """Return where a certificate is kept that the name server makes for itself."""
        return self.kv_config_path.with_name("tls")

    @property
    def audit(self) -> AuditSettings:
        return part_of(self, AuditSettings)

    @property
    def audit_folder_unless_named(self) -> Path:
        """Return where the audit log is, if no folder is named for it."""
        return self.kv_config_path.with_name("audit")

    @property
    def black_list(self) -> set[str]:
        return {*ALWAYS_BLACK, *self.config_black_list}


CONTROLLER_KEYS = IgnoredKeys(
    "they are the controller's, which does not run here",
    """
    controllerType= controllerDLegerGroup= controllerDLegerPeers= controllerDLegerSelfId= controllerStorePath=
    controllerThreadPoolNums= controllerRequestThreadPoolQueueCapacity= mappedFileSize=
    enableElectUncleanMaster= isProcessReadEvent= notifyBrokerRoleChanged= scanInactiveMasterInterval=
    """,
)

NAMESRV_KEYS = JavaKeys(
    IgnoredKeys(
        "there are no thread pools here",
        """
        clientRequestThreadPoolNums=8 clientRequestThreadPoolQueueCapacity=50000 defaultThreadPoolNums=16
        defaultThreadPoolQueueCapacity=10000
        """,
    ),
    *SERVER_KEYS,
    IgnoredKeys("brokers are unregistered at once, not by way of a queue", "unRegisterBrokerQueueCapacity=3000"),
    IgnoredKeys("only clusterTest would read it", "productEnvName=center"),
    IgnoredKeys("nothing is read from an installation folder", "rocketmqHome="),
    IgnoredKeys(
        "this file is never rewritten; changes made over the wire are kept beside kvConfigPath", "configStorePath="
    ),
    RefusedKeys(
        "there is no controller in this name server", "run a controller of its own", "enableControllerInNamesrv=false"
    ),
    RefusedKeys(
        "routes that are missing here are not fetched from another environment",
        "give clients that environment's name servers",
        "clusterTest=false",
    ),
    RefusedKeys("the TLS keys stand among the others here", "move that file's keys into this one", "tls.config.file="),
    RefusedKeys("TLS towards brokers has a key of its own", "set tls.enable=true", "useTLS=false"),
    CLIENT_KEYS,
    TLS_KEYS,
    CONTROLLER_KEYS,
)

HIDDEN_KEYS = frozenset(JavaKeys(CLIENT_KEYS, TLS_KEYS, CONTROLLER_KEYS).names())
