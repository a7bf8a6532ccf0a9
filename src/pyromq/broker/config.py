"""The broker's settings: one frozen value, with Java's key names. The store's own come with it (`StoreConfig`).

Read by `config.load`; checked before anything opens. Settings that may change while running are marked live, and the
parts read them from `Live.config` each time they need one.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..access.plain.settings import PlainAclSettings
from ..access.settings import AccessSettings
from ..audit.settings import AuditSettings
from ..config import check_ranges, setting
from ..config.parts import including, part_of
from ..coordination.settings import CoordinationSettings
from ..errors import ConfigError
from ..metrics.settings import MetricsSettings
from ..model import names
from ..model.group import MessageRequestMode
from ..proxy.config import NO_PORT, ProxySettings
from ..store.config import FlushMode, StoreConfig
from ..store.layout import COMMIT_LOG, how_to_link
from ..store.log.retention import RetentionConfig
from ..store.timer.timer_store import TimerSettings
from ..store.timer.timer_wheel import SLOTS
from ..transport.address import is_loopback, parse_address, refuse_strangers
from ..transport.settings import StrangerSettings, TransportSettings
from ..transport.turns.apart import AdminListenerSettings
from .elected.controlled.settings import ControllerModeSettings
from .metrics.settings import MetricGroups
from .pop.settings import PopSettings
from .quotas.settings import QuotaSettings
from .replication.settings import BrokerRole, HaTls, ReplicationSettings
from .replication.stream_tls import port_opening

T = TypeVar("T")

SPARE_MS = 1_000  # sends wait longer than their slaves are waited for


def _host_name() -> str:
    """Return Java's default broker name, without what a topic name may not have: a topic is named after it."""
    allowed = "".join(char for char in socket.gethostname() if char.isascii() and (char.isalnum() or char in "_-"))
    return allowed or "DEFAULT_BROKER"


@dataclass(frozen=True, slots=True, kw_only=True)
@including(TransportSettings)
@including(AccessSettings)
@including(PlainAclSettings)
@including(ProxySettings)
@including(ReplicationSettings)
@including(CoordinationSettings)
@including(ControllerModeSettings)
@including(AuditSettings)
@including(QuotaSettings)
@including(RetentionConfig, live=True)
@including(MetricsSettings)
@including(MetricGroups)
@including(AdminListenerSettings)
@including(StrangerSettings)
class BrokerConfig(PopSettings):
    """Times are milliseconds where the name says so or Java's key is known for it."""

    # Identity and addresses
    broker_cluster_name: str = setting("DefaultCluster", flag=True, help="cluster that this broker belongs to")
    broker_name: str = setting(factory=_host_name, flag=True, help="name of this broker; replicas share it")
    namesrv_addr: tuple[str, ...] = setting((), flag=True, help="name servers, host:port separated by ;")
    bind_address: str = setting(
        "127.0.0.1", flag=True, help="address to listen on; other than loopback needs --insecure"
    )
    listen_port: int = setting(
        10911, low=0, high=65535, flag=True, help="port; 0 takes a free one. The fast port is 2 below"
    )
    fast_listen_port: int | None = setting(
        None, low=0, high=65535, help="the fast (VIP) port, if it is not the port less 2"
    )
    broker_ip1: str | None = setting(
        None, java="brokerIP1", flag=True, help="address that clients are told, if it is not the one listened on"
    )
    allow_unauthenticated: bool = setting(False, help="listen beyond loopback although nobody is authenticated")
    region_id: str = setting("DefaultRegion", help="goes out as MSG_REGION with every send answer")
    trace_on: bool = setting(True, live=True, help="goes out as TRACE_ON with every send answer")
    broker_topic_enable: bool = setting(True, help="the topic named after the broker may be used")
    cluster_topic_enable: bool = setting(True, help="the topic named after the cluster may be used")
    trace_topic_enable: bool = setting(False, help="create the topic for message traces")
    msg_trace_topic_name: str = setting(names.TRACE_TOPIC, help="its name")
    broker_permission: int = setting(6, low=0, high=7, live=True, help="4 read, 2 write: of all topics of this broker")
    store_path_root_dir: Path = setting(Path("~/store").expanduser(), flag=True, help="folder of all data")
    store_path_commit_log: Path | None = setting(None, help="commitlog in that folder, or what is linked there")

    # Registration with name servers
    register_name_server_period: int = setting(30_000, low=10_000, high=60_000, help="ms between registrations")
    register_broker_timeout_mills: int = setting(24_000, low=100, help="ms for one name server to answer")
    compressed_register: bool = setting(False, live=True, help="deflate the registration")
    enable_split_registration: bool = setting(
        False, live=True, help="register in parts; what is larger than a frame goes so in any case"
    )
    split_registration_size: int = setting(800, low=2, live=True, help="topics of such a part")

    # Connections
    channel_expired_timeout: int = setting(120_000, low=1_000, wide=True, help="ms without heartbeat of a client")
    server_channel_max_idle_time_seconds: int = setting(120, low=1, help="s without traffic on a connection")
    shutdown_wait_time_seconds: int = setting(10, low=0, help="s for requests in flight at a stop")

    # Overload
    start_accept_send_request_time_stamp: int = setting(0, low=0, wide=True, help="sends are refused before this ms")
    broker_fast_failure_enable: bool = setting(
        True, live=True, help="false: a send is served however long it waited; the other limits stay"
    )
    wait_time_mills_in_send_queue: int = setting(
        200,
        low=1,
        live=True,
        wide=True,
        help="ms that a send may wait, if its client names no time-out; then SYSTEM_BUSY",
    )
    queued_requests: int = setting(
        10_000,
        java="sendThreadPoolQueueCapacity",
        low=1,
        help="requests of one class that may wait to be served, then SYSTEM_BUSY",
    )
    max_loop_lag_ms: int = setting(
        1_000,
        java="osPageCacheBusyTimeOutMills",
        low=1,
        live=True,
        wide=True,
        help="ms that the event loop runs late, then SYSTEM_BUSY",
    )
    max_unflushed_bytes: int = setting(
        512 << 20, low=1 << 20, live=True, wide=True, help="bytes appended but not on the medium, then SYSTEM_BUSY"
    )
    max_waiting_replies: int = setting(
        100_000, low=1, live=True, help="sends stored whose reply waits for the disk, then SYSTEM_BUSY"
    )

    # Sending
    auto_create_topic_enable: bool = setting(True, live=True, help="a send creates a missing topic")
    default_topic_queue_nums: int = setting(8, low=1, high=1 << 16, help="queues of TBW102")
    spread_auto_created_topics: bool = setting(
        True, live=True, help="create an auto-created topic on the cluster's other brokers too"
    )
    enforce_topic_permission: bool = setting(
        True, live=True, help="false: a send to a topic without write permission is stored, as Java does"
    )
    enforce_message_type: bool = setting(
        False, live=True, help="refuse messages that do not fit a topic's message.type, as Java's proxy does"
    )
    reject_transaction_message: bool = setting(False, live=True, help="refuse half messages")
    enable_mixed_message_type: bool = setting(False, live=True, help="topics may have message.type=MIXED")
    validate_system_topic_when_update_topic: bool = setting(
        True, live=True, help="administrators may not change system topics"
    )
    duplicate_window_enable: bool = setting(
        False, help="store a send with the property __SEND_ID once, however often it comes"
    )
    duplicate_window_seconds: int = setting(600, low=1, help="s that such a send is remembered")
    duplicate_window_messages: int = setting(100_000, low=1, help="messages that are remembered, then the oldest go")
    store_reply_message_enable: bool = setting(
        True, live=True, help="keep replies to request messages in the reply topic too"
    )
    sync_flush_timeout: int = setting(5_000, low=1, live=True, help="ms, then FLUSH_DISK_TIMEOUT")
    max_msgs_num_batch: int = setting(64, low=1, live=True, help="messages that one key query returns")
    default_query_max_num: int = setting(32, low=1, live=True, help="the same by unique key")

    # Pulling and offsets
    long_polling_enable: bool = setting(True, live=True, help="hold a pull that finds nothing")
    short_polling_time_mills: int = setting(1_000, low=1, live=True, wide=True, help="ms to hold it otherwise")
    max_transfer_bytes_on_message_in_memory: int = setting(256 << 10, low=1, live=True, help="of one pull")
    max_transfer_count_on_message_in_memory: int = setting(32, low=1, live=True, help="of one pull")
    max_transfer_bytes_on_message_in_disk: int = setting(64 << 10, low=1, live=True, help="of a cold pull")
    max_transfer_count_on_message_in_disk: int = setting(8, low=1, live=True, help="of a cold pull")
    access_message_in_memory_max_ratio: int = setting(
        40, low=1, high=100, live=True, help="percent of the machine's memory that messages are taken to fill"
    )
    large_pull_groups: tuple[str, ...] = setting(
        ("pyromq-spark",), live=True, help="groups that may pull up to largePullCount messages at once"
    )
    large_pull_count: int = setting(2_048, low=1, live=True, help="messages of one pull of these groups")
    large_pull_bytes: int = setting(1 << 20, low=1, high=12 << 20, live=True, help="bytes of one such pull")
    disable_consume_if_consumer_read_slowly: bool = setting(
        False, live=True, help="stop groups that read too far behind (consumeEnable=false)"
    )
    consumer_fallbehind_threshold: int = setting(
        16 << 30, low=1, live=True, wide=True, help="bytes of log between a group and the end that are too far"
    )
    cold_data_flow_control_enable: bool = setting(
        False, live=True, help="hold reads from the medium to the rates below"
    )
    cg_cold_read_threshold: int = setting(3 << 20, low=1, live=True, wide=True, help="bytes per second of one group")
    global_cold_read_threshold: int = setting(100 << 20, low=1, live=True, wide=True, help="bytes per second of all")
    max_held_pulls: int = setting(200_000, low=1, live=True, help="pulls held at a time, then answered")
    max_held_pull_bytes: int = setting(
        256 << 20, low=1, live=True, wide=True, help="bytes of their requests, then answered"
    )
    lite_pull_message_enable: bool = setting(True, live=True, help="serve request 361")
    reject_pull_consumer_enable: bool = setting(False, live=True, help="refuse groups that pull actively")
    use_server_side_reset_offset: bool = setting(
        True, live=True, help="false: a reset is told to the clients, as in 4.9"
    )
    flush_consumer_offset_interval: int = setting(5_000, low=1, help="ms between writes of the offsets")
    consumer_offset_update_version_step: int = setting(500, low=1, wide=True, help="commits per version of the table")

    # Filters
    max_filter_message_size: int = setting(
        400_000, low=1, live=True, help="bytes of queue entries that one pull by tags may look through"
    )
    enable_property_filter: bool = setting(
        False, live=True, help="evaluate SQL92 expressions over message properties for groups that ask"
    )
    filter_support_retry: bool = setting(
        False, live=True, help="filter a retry topic that is subscribed to by SQL92 as its messages' topics"
    )
    filter_data_clean_time_span: int = setting(
        86_400_000, low=0, live=True, wide=True, help="ms that the filter of a group without members is remembered"
    )
    expect_consumer_num_use_filter: int = setting(
        32, low=1, help="sizes the bit positions kept in consumerFilter.json for Java brokers"
    )
    max_error_rate_of_bloom_filter: int = setting(20, low=1, high=99, help="percent; the same")

    # Delays
    flush_delay_offset_interval: int = setting(
        10_000, low=1, wide=True, help="ms between writes of how far delay levels are delivered"
    )

    # Timers
    timer_wheel_enable: bool = setting(True, live=True, help="false: refuse timed messages")
    timer_max_delay_sec: int = setting(
        259_200, low=1, high=1 << 33, live=True, help="s that a timed message may be ahead, up to centuries"
    )
    timer_precision_ms: int = setting(1_000, low=100, high=1_000, help="ms that a timed message may be late")
    timer_roll_window_slot: int = setting(
        172_800, low=2, help="precisions after which a message that waits longer is put again"
    )
    timer_flush_interval_ms: int = setting(1_000, low=1, help="ms between syncs of the timer's files")
    timer_log_file_bytes: int = setting(
        100 << 20, java="mappedFileSizeTimerLog", low=4096, help="bytes of a timer log file"
    )
    timer_wheel_slots: int = setting(
        SLOTS, low=240, high=SLOTS, help="slots of the timer wheel; Java reads no other number than this"
    )
    append_topic_for_timer_delete_key: bool = setting(False, help="a recall names topic and id, not the id alone")
    timer_congest_num_each_slot: int = setting(
        (1 << 31) - 1, low=1, live=True, help="messages of one precision above which some are refused"
    )
    timer_stop_enqueue: bool = setting(
        False, live=True, help="timed messages are stored, but not looked at: to stop their delivery"
    )
    timer_stop_dequeue: bool = setting(False, live=True, help="nothing that is due is delivered")
    recall_message_enable: bool = setting(False, live=True, help="serve request 370")
    allow_recall_when_broker_not_writeable: bool = setting(
        True, live=True, help="serve it too while brokerPermission lacks writing"
    )

    # Dead letters
    dead_letter_reserved_hours: int = setting(
        0,
        java="deadLetterReservedTime",
        low=0,
        live=True,
        help="hours that dead letters are kept, also when their log file goes before; 0: as long as the log",
    )

    # Transactions
    transaction_check_interval: int = setting(
        30_000, low=1, live=True, wide=True, help="ms between two rounds of asking about half messages"
    )
    transaction_time_out: int = setting(
        6_000, low=0, live=True, wide=True, help="ms after its birth before a half message is asked about"
    )
    transaction_check_max: int = setting(15, low=0, live=True, help="times that it is asked about, then it is given up")

    # Clients and groups
    rebalance_lock_max_live_time: int = setting(
        60_000, low=1_000, help="ms that an orderly consumer keeps a queue which it does not renew"
    )
    auto_create_subscription_group: bool = setting(True, live=True, help="a heartbeat creates its group")
    enable_create_sys_group: bool = setting(True, live=True, help="system groups are created regardless")
    notify_consumer_ids_changed_enable: bool = setting(
        True, live=True, help="tell the members of a group when it changes"
    )
    clear_retry_topic_when_delete_topic: bool = setting(
        True, live=True, help="a deleted topic takes the pop retry topics of its groups along"
    )
    enable_register_producer: bool = setting(True, live=True, help="keep a table of producers")
    server_load_balancer_enable: bool = setting(
        True, live=True, help="false: a client that asks for its queues (request 400) is given all of the topic"
    )
    default_message_request_mode: MessageRequestMode = setting(
        MessageRequestMode.PULL, live=True, help="whether groups that ask for their queues pull or pop, if not set"
    )
    default_pop_share_queue_num: int = setting(
        -1, live=True, help="clients whose queues one pops besides its own, with POP by default; 0 or less: all"
    )
    load_balance_poll_name_server_interval: int = setting(
        30_000, low=1, live=True, wide=True, help="ms that a route is used for these clients before it is asked again"
    )
    refuse_conflicting_subscriptions: bool = setting(
        False, live=True, help="refuse a heartbeat that subscribes otherwise than its group"
    )

    # What clients may make a broker keep or do: ours alone, Java's broker takes whatever comes. Each is far above what
    # honest clients need, and a refusal names it.
    max_heartbeat_bytes: int = setting(
        1 << 20, low=1 << 10, live=True, help="bytes of one heartbeat, then it is refused"
    )
    max_groups_per_client: int = setting(
        1_000, low=1, live=True, help="groups of one connection, consumers' and producers' together"
    )
    max_subscriptions_per_group: int = setting(
        1_000, low=1, live=True, help="topics that one heartbeat may subscribe a group to"
    )
    max_tags_per_subscription: int = setting(
        2_000, low=1, live=True, help="tags of one subscription, in heartbeats and pulls"
    )
    max_expression_bytes: int = setting(
        64 << 10, low=256, live=True, help="characters of a subscription's tags or SQL92 expression"
    )
    max_expressions_per_heartbeat: int = setting(
        200, low=1, high=250, live=True, help="different SQL92 expressions in one; 256 are remembered"
    )
    max_filter_data_bytes: int = setting(
        32 << 20, low=1 << 20, help="bytes of SQL92 filters that are remembered of all groups"
    )
    max_clients_per_group: int = setting(10_000, low=1, live=True, help="connections in one group")
    max_client_table_bytes: int = setting(
        0,
        low=0,
        live=True,
        wide=True,
        help="bytes that are kept of all heartbeats, estimated; 0: an eighth of the memory, from 64 MiB to 1 GiB",
    )
    max_auto_created_topics: int = setting(
        50_000, low=0, live=True, help="topics of this broker above which only administrators make more"
    )
    max_auto_created_groups: int = setting(
        50_000, low=0, live=True, help="groups of this broker above which only administrators make more"
    )

    max_messages_in_batch: int = setting(
        32_767, low=1, live=True, help="messages of one batch: it is stored whole, while others wait"
    )
    max_consumer_offsets: int = setting(
        200_000, low=1, live=True, help="pairs of group and topic of which offsets are kept"
    )

    def __post_init__(self) -> None:
        StoreConfig.__post_init__(self)  # no super(): a class with slots is made anew by the decorator
        check_ranges(self)
        self.part(RetentionConfig)  # checks what it declares
        self.part(ReplicationSettings)  # so do these
        self.part(CoordinationSettings)
        self.part(PlainAclSettings).check_plain_acl()
        self.access.check_access()
        self.access.check_white_lists(self.why_no_white_lists())
        self.part(QuotaSettings)
        for key, name in (("brokerClusterName", self.broker_cluster_name), ("brokerName", self.broker_name)):
            if (fault := names.topic_fault(name)) is not None:
                raise ConfigError(f"{key} = {name}: a topic has this name, but {fault}")
        for address in self.namesrv_addr:
            try:
                parse_address(address)
            except ConfigError as fault:
                raise ConfigError(f"namesrvAddr = {address}: {fault}") from None
        commit_log = self.store_path_root_dir / COMMIT_LOG
        if self.store_path_commit_log is not None and self.store_path_commit_log.resolve() != commit_log.resolve():
            raise ConfigError(
                f"storePathCommitLog = {self.store_path_commit_log}: the log is in {commit_log} here "
                f"(storePathRootDir); {how_to_link(commit_log, self.store_path_commit_log)}"
            )
        is_open = self.allow_unauthenticated or self.access.authentication_enabled
        self.part(AdminListenerSettings).check_admin_listener(is_open)
        if not is_open:
            refuse_strangers(self.bind_address, "set authenticationEnabled=true (docs/access.md), ")
        if self.broker_ip1 is not None and self.broker_ip1 != self.bind_address and self.is_loopback:
            raise ConfigError(
                f"brokerIP1 = {self.broker_ip1}: clients would be sent there, but the broker listens on "
                f"{self.bind_address} alone; set bindAddress (of `pyromq up` --host; 0.0.0.0 for all), or leave out "
                "brokerIP1 (--advertise)"
            )
        _ = self.advertised_host  # raises where there is none

    def part(self, kind: type[T]) -> T:
        """Return the settings that a room declared, as that room's own value."""
        return part_of(self, kind)

    @property
    def access(self) -> AccessSettings:
        """Return the settings of users, with what ACL 1.0 switches on."""
        return self.part(PlainAclSettings).applied_to(self.part(AccessSettings))

    def why_no_white_lists(self) -> str:
        """Return why no address may be let in; empty: addresses are what they seem."""
        settings = self.part(ProxySettings)
        return "" if settings.port_beside(self.listen_port) == NO_PORT else settings.why_no_white_lists()

    def check_daemon(self) -> None:
        """Raise ConfigError for what no broker starts with, though each life of a replica has such values.

        A replica of an elected set is given its role and its number, one after the other, by its set."""
        role, number = self.replication.broker_role, self.replication.broker_id
        if self.is_elected and (role is BrokerRole.SLAVE or number):
            raise ConfigError(
                f"brokerRole = {role.value}, brokerId = {number}: a replica of a set whose master is elected "
                "(etcdEndpoints, enableControllerMode) is given both by its set; leave them out"
            )
        if self.is_controlled and self.coordination.etcd_endpoints:
            raise ConfigError(
                "enableControllerMode = true and etcdEndpoints: a set is led by a controller or elects its master over "
                "etcd; leave one of them out"
            )
        access = self.access
        if self.coordination.etcd_endpoints and access.authentication_enabled and access.inner_credentials() is None:
            raise ConfigError(
                "authenticationEnabled (or aclEnable) = true and etcdEndpoints: replicas of the set sign what they ask "
                "each other, and users in its log are sealed; set innerClientAuthenticationCredentials, the same at "
                "all of them"
            )
        transport = self.part(TransportSettings)
        if self.replication.ha_tls is HaTls.REQUIRED and not transport.makes_certificate:
            port_opening(transport, HaTls.REQUIRED)

    @property
    def timer(self) -> TimerSettings:
        return TimerSettings(
            self.timer_precision_ms, self.timer_roll_window_slot, self.timer_log_file_bytes, self.timer_wheel_slots
        )

    @property
    def answers_wait(self) -> bool:
        """Return whether sends are answered later than they are appended: once synced, or once slaves have them."""
        return self.flush_mode is FlushMode.SYNC or self._is_sync_master

    @property
    def put_wait_s(self) -> float:
        """Return how long a put waits for that. Slaves are given up by themselves (`copies.py`), before that.

        The replicas of an elected set are not: what waits for them is told so in time, and stays unreadable."""
        if not self._is_sync_master:
            return self.sync_flush_timeout / 1000
        if self.is_elected:
            is_sync_flush = self.flush_mode is FlushMode.SYNC
            return max(self.slave_wait_ms, self.sync_flush_timeout if is_sync_flush else 0) / 1000
        return max(self.sync_flush_timeout, self.slave_wait_ms + SPARE_MS) / 1000

    @property
    def slave_wait_ms(self) -> int:
        own: Any = self  # has the included fields too, which no type says
        wait_ms: int = own.slave_timeout
        return wait_ms

    @property
    def needed_slaves(self) -> int:
        """Return how many slaves must have a message before a SYNC_MASTER answers its send."""
        return self.part(ReplicationSettings).needed_copies - 1

    @property
    def _is_sync_master(self) -> bool:
        own: Any = self
        return own.broker_role is BrokerRole.SYNC_MASTER

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.bind_address)

    def client_table_bytes(self, memory_bytes: int) -> int:
        """Return what may be kept of all heartbeats on a machine with so much memory."""
        return self.max_client_table_bytes or max(64 << 20, min(memory_bytes // 8, 1 << 30))

    def may_create_group(self, group: str) -> bool:
        """Return whether a consumer makes its group by turning up."""
        return self.auto_create_subscription_group or (self.enable_create_sys_group and names.is_system_group(group))

    @property
    def replication(self) -> ReplicationSettings:
        return self.part(ReplicationSettings)

    @property
    def is_slave(self) -> bool:
        return self.replication.is_slave

    @property
    def coordination(self) -> CoordinationSettings:
        return self.part(CoordinationSettings)

    @property
    def is_elected(self) -> bool:
        """Return whether this broker is a replica of a set whose master is elected, over etcd or by a controller."""
        own: Any = self  # asked for every send
        return bool(own.etcd_endpoints or own.enable_controller_mode)

    @property
    def controller_mode(self) -> ControllerModeSettings:
        return self.part(ControllerModeSettings)

    @property
    def is_controlled(self) -> bool:
        """Return whether a controller says who is master of this broker's set."""
        return self.controller_mode.enable_controller_mode

    @property
    def advertised_host(self) -> str:
        """Return what clients are told. An address for all interfaces is none that they could use."""
        if self.broker_ip1 is not None:
            return self.broker_ip1
        if self.bind_address in ("0.0.0.0", "::", ""):
            raise ConfigError(
                f"bindAddress = {self.bind_address} names no address that clients could use: set brokerIP1 (of "
                "`pyromq up` --advertise) to one of this machine's"
            )
        return "127.0.0.1" if self.bind_address == "localhost" else self.bind_address

    @property
    def overlay_path(self) -> Path:
        """Return the file of settings changed over the wire, in the folder of what Java does not know."""
        return self.store_path_root_dir / "pyromq" / "broker-overlay.properties"

    @property
    def tls_folder(self) -> Path:
        """Return where a certificate is kept that the broker makes for itself."""
        return self.overlay_path.with_name("tls")

    @property
    def audit_folder_unless_named(self) -> Path:
        """Return where the audit log is, if no folder is named for it."""
        return self.overlay_path.with_name("audit")

    @property
    def fast_port(self) -> int:
        """Return the fast port; 0 with a free main port: then any free one."""
        if self.fast_listen_port is not None:
            return self.fast_listen_port
        return self.listen_port - 2 if self.listen_port > 2 else 0
