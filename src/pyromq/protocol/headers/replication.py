"""Brokers among themselves and with the controller; broker containers."""

from __future__ import annotations

from .header import Header, Int32, Int64


class AddBroker(Header, kw_only=True):
    config_path: str | None = None


class RemoveBroker(Header, kw_only=True):
    broker_name: str
    broker_cluster_name: str
    broker_id: Int64


class ExchangeHaInfo(Header, kw_only=True):
    """A request without fields only asks."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffset(Header, kw_only=True):
    master_flush_offset: Int64 | None = None


class AlterSyncStateSet(Header, kw_only=True):
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 = 0


class AlterSyncStateSetAnswer(Header, kw_only=True):
    new_sync_state_set_epoch: Int32 = 0


class ElectMaster(Header, kw_only=True):
    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1  # any broker may be elected
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class ReplicaMaster(Header, kw_only=True):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class ElectedMaster(ReplicaMaster, kw_only=True):
    """The answer to an election, and what the controller says of one to the brokers."""

    sync_state_set_epoch: Int32 | None = None


class GetReplicaInfo(Header, kw_only=True):
    broker_name: str | None = None


class ControlledBroker(GetReplicaInfo, kw_only=True):
    cluster_name: str | None = None


class RegisterBrokerToController(ControlledBroker, kw_only=True):
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoke_time: Int64 = 0


class RegisterBrokerToControllerAnswer(ElectedMaster, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None


class GetMetadataInfoAnswer(Header, kw_only=True):
    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class CleanBrokerData(Header, kw_only=True):
    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None  # separated by semicolons
    is_clean_living_broker: bool = False
    invoke_time: Int64 = 0


class GetNextBrokerIdAnswer(ControlledBroker, kw_only=True):
    next_broker_id: Int64 | None = None


class ApplyBrokerId(ControlledBroker, kw_only=True):
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None  # `address;timestamp`
