"""Replicas, their state sets and epochs: bodies of HA status and controller requests."""

from __future__ import annotations

from ..ints import Int32, Int64
from .body import Body, always, always_new
from .route import BrokerMemberGroup


class HAConnectionRuntimeInfo(Body, kw_only=True):
    addr: str | None = None
    diff: Int64 = always(0)
    in_sync: bool = always(False)
    slave_ack_offset: Int64 = always(0)
    transfer_from_where: Int64 = always(0)
    transferred_byte_in_second: Int64 = always(0)


class HAClientRuntimeInfo(Body, kw_only=True):
    last_read_timestamp: Int64 = always(0)
    last_write_timestamp: Int64 = always(0)
    master_addr: str | None = None
    master_flush_offset: Int64 = always(0)
    max_offset: Int64 = always(0)
    transferred_byte_in_second: Int64 = always(0)


class HARuntimeInfo(Body, kw_only=True):
    ha_client_runtime_info: HAClientRuntimeInfo = always_new(HAClientRuntimeInfo)
    ha_connection_info: list[HAConnectionRuntimeInfo] = always_new(list)
    in_sync_slave_nums: Int32 = always(0)
    master: bool = always(False)
    master_commit_log_max_offset: Int64 = always(0)


class SyncStateSet(Body, kw_only=True):
    sync_state_set: list[Int64] | None = None
    sync_state_set_epoch: Int32 = always(0)


class ElectMasterResponseBody(Body, kw_only=True):
    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Int64] | None = None


class ReplicaIdentity(Body, kw_only=True):
    alive: bool | None = None
    broker_address: str | None = None
    broker_id: Int64 | None = None
    broker_name: str | None = None


class ReplicasInfo(Body, kw_only=True):
    in_sync_replicas: list[ReplicaIdentity] = always_new(list)
    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    not_in_sync_replicas: list[ReplicaIdentity] = always_new(list)
    switched_ms: Int64 | None = None  # ours alone: when the master changed last
    switched_why: str | None = None
    sync_state_set_epoch: Int32 | None = None


class BrokerReplicasInfo(Body, kw_only=True):
    replicas_info_table: dict[str, ReplicasInfo] = always_new(dict)  # by broker name


class EpochEntry(Body, kw_only=True):
    end_offset: Int64 = always(0)
    epoch: Int32 = always(0)
    start_offset: Int64 = always(0)


class EpochEntryCache(Body, kw_only=True):
    broker_id: Int64 = always(0)
    broker_name: str | None = None
    cluster_name: str | None = None
    epoch_list: list[EpochEntry] | None = None
    max_offset: Int64 = always(0)
