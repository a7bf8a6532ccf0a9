"""The settings of roles and replication, with Java's keys. What Java has no key for says so.

`BrokerConfig` takes them over; the parts of `broker/replication/` are given them as one value. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_network

from ...config import setting
from ...errors import ConfigError
from ...model.topic import MASTER_ID
from ...protocol.replication.classic import MOST_CHUNK_BYTES
from ...transport.address import parse_address

ELECTED_MINIMUM = 2
SYNC_UNLESS_SAID = 2  # copies of an acknowledged message under SYNC_MASTER, the master's own included


class HaTls(Enum):
    """Whether replication streams are encrypted. Java's never are."""

    OFF = "off"
    ON = "on"
    REQUIRED = "required"


class BrokerRole(Enum):
    """What a broker is to the others of its name. A master without slaves is an ASYNC_MASTER."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """Times are milliseconds, as Java's."""

    broker_role: BrokerRole = setting(
        BrokerRole.ASYNC_MASTER, help="SYNC_MASTER answers a send once slaves have it; SLAVE follows a master"
    )
    broker_id: int = setting(MASTER_ID, low=0, wide=True, help="0: the master of its name; from 1 on: a slave")
    ha_listen_port: int = setting(0, low=0, high=65535, help="port for slaves; 0: the one above listenPort")
    ha_master_address: str | None = setting(
        None, help="the master's HA port as host:port, if it is not the one that name servers tell"
    )
    ha_send_heartbeat_interval: int = setting(
        5_000, low=1, live=True, help="ms without a word to the other side, then a heartbeat"
    )
    ha_housekeeping_interval: int = setting(
        20_000, low=1, live=True, help="ms without a word from the other side, then the connection is given up"
    )
    ha_transfer_batch_size: int = setting(
        32 << 10, low=1, high=MOST_CHUNK_BYTES, live=True, help="bytes of the log that a slave is sent at once"
    )
    ha_max_gap_not_in_sync: int = setting(
        256 << 20, low=1, live=True, wide=True, help="bytes that a slave may be behind and still count as in sync"
    )
    slave_timeout: int = setting(
        3_000, low=1, live=True, help="ms that a send waits for slaves, then FLUSH_SLAVE_TIMEOUT"
    )
    in_sync_replicas: int | None = setting(
        None,
        low=1,
        high=100,
        live=True,
        help="copies of a message, the master's included, before SYNC_MASTER answers; not given: 2 (Java: 1, which "
        "waits for nobody)",
    )
    min_in_sync_replicas: int | None = setting(
        None,
        low=1,
        high=100,
        live=True,
        help="copies that must be possible, or sends are refused; not given: 1, and 2 in a set elected over etcd",
    )
    enable_auto_in_sync_replicas: bool = setting(
        False,
        live=True,
        help="SYNC_MASTER waits for as many slaves as are in sync, up to inSyncReplicas and down to minInSyncReplicas: "
        "while none is there, the master's copy alone is enough",
    )
    total_replicas: int | None = setting(
        None,
        low=1,
        high=100,
        help="brokers of this name, the master included; as in Java, inSyncReplicas and minInSyncReplicas may not be "
        "more, and nothing else goes by it",
    )
    ha_flow_control_enable: bool = setting(False, live=True, help="hold the stream to slaves to the rate below")
    max_ha_transfer_byte_in_second: int = setting(
        100 << 20, low=1, live=True, wide=True, help="bytes a second to one slave, with haFlowControlEnable"
    )
    slave_read_enable: bool = setting(False, live=True, help="consumers that are far behind read from a slave")
    offset_check_in_slave: bool = setting(
        False, live=True, help="a slave corrects offsets outside of its queues, as a master does"
    )
    # Java has none of these.
    ha_allow: tuple[str, ...] = setting(
        (),
        live=True,
        help="addresses or networks whose slaves may connect, separated by ;. Not given: the members of this broker's "
        "name that name servers know, and this machine",
    )
    ha_start_from_first: bool = setting(
        False, live=True, help="an empty slave gets the whole log, not the last file alone as Java gives"
    )
    ha_ack_after_flush: bool = setting(False, help="a slave acknowledges what is on its medium, not what it has")
    ha_hold_bytes: int = setting(
        8 << 30, low=0, live=True, wide=True, help="bytes of log that a slave which is behind may keep from deletion"
    )

    ha_tls: HaTls = setting(
        HaTls.OFF,
        help="on: this broker follows its master by TLS (a Java master has none); required: it also takes only slaves "
        "that do. Certificates are those of tls.server and tls.client",
    )

    def __post_init__(self) -> None:
        self._check_role()
        if self.ha_master_address is not None:
            try:
                parse_address(self.ha_master_address)
            except ConfigError as fault:
                raise ConfigError(f"haMasterAddress = {self.ha_master_address}: {fault}") from None
        for network in self.ha_allow:
            try:
                ip_network(network, strict=False)
            except ValueError:
                raise ConfigError(
                    f"haAllow = {network}: no address and no network; write 10.0.0.7 or 10.0.0.0/24, with ; between"
                ) from None
        if self.classic_minimum > self.needed_copies:
            raise ConfigError(
                f"minInSyncReplicas = {self.classic_minimum}: more than inSyncReplicas, which is "
                f"{self.needed_copies}; make inSyncReplicas as large at least"
            )

        self._check_total()

    def _check_total(self) -> None:
        """Raise ConfigError where more copies are wanted than there are brokers, as Java's does at its start."""
        total = self.total_replicas
        for key, wanted in (
            ("inSyncReplicas", self.in_sync_replicas),
            ("minInSyncReplicas", self.min_in_sync_replicas),
        ):
            if total is not None and wanted is not None and wanted > total:
                raise ConfigError(
                    f"{key} = {wanted}: more than totalReplicas, which is {total}; lower {key}, or set totalReplicas "
                    "to the number of brokers of this name"
                )

    def _check_role(self) -> None:
        role, number = self.broker_role.value, self.broker_id
        if self.is_slave and number == MASTER_ID:
            raise ConfigError(f"brokerRole = {role}: a slave has a number of its own; set brokerId=1 (2, 3 ...)")
        if not self.is_slave and number != MASTER_ID:
            raise ConfigError(
                f"brokerId = {number}: a master has the number 0; set brokerId=0, or brokerRole=SLAVE for a slave"
            )

    @property
    def is_slave(self) -> bool:
        return self.broker_role is BrokerRole.SLAVE

    @property
    def classic_minimum(self) -> int:
        """Return how many copies must be possible before a SYNC_MASTER takes a send, its own included."""
        return 1 if self.min_in_sync_replicas is None else self.min_in_sync_replicas

    @property
    def elected_minimum(self) -> int:
        """Return the members that the in-sync set of an elected set has at least."""
        return ELECTED_MINIMUM if self.min_in_sync_replicas is None else self.min_in_sync_replicas

    @property
    def controlled_minimum(self) -> int:
        """Return the members that the in-sync set must have where a controller leads: one, unless it is said."""
        return self.classic_minimum

    @property
    def needed_copies(self) -> int:
        """Return how many copies of a message a SYNC_MASTER wants before it answers, its own included."""
        return SYNC_UNLESS_SAID if self.in_sync_replicas is None else self.in_sync_replicas
