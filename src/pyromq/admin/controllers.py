"""Controllers, the brokers' epochs and in-sync sets, and broker containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..config import properties
from ..protocol.bodies.body import encode_body
from ..protocol.bodies.replication import BrokerReplicasInfo, ElectMasterResponseBody, EpochEntryCache
from ..protocol.headers.replication import (
    AddBroker,
    CleanBrokerData,
    ElectMaster,
    ElectMasterAnswer,
    GetMetadataInfoAnswer,
    RemoveBroker,
)
from ..protocol.requests import RequestCode
from .calls import Calls, read


async def metadata(calls: Calls, controller: str) -> GetMetadataInfoAnswer:
    """1005: who leads."""
    answer = await calls.broker(controller, RequestCode.CONTROLLER_GET_METADATA_INFO)
    return GetMetadataInfoAnswer.from_fields(answer.fields)


async def settings(calls: Calls, controller: str) -> dict[str, str]:
    """1010."""
    answer = await calls.broker(controller, RequestCode.GET_CONTROLLER_CONFIG)
    return {entry.key: entry.value for entry in properties.parse(bytes(answer.body).decode(), controller)}


async def change_settings(calls: Calls, controller: str, pairs: Mapping[str, str]) -> None:
    """1009."""
    body = properties.render(pairs).encode()
    await calls.broker(controller, RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)


async def elect(
    calls: Calls, controller: str, wanted: ElectMaster
) -> tuple[ElectMasterAnswer, ElectMasterResponseBody]:
    """1002."""
    answer = await calls.broker(controller, RequestCode.CONTROLLER_ELECT_MASTER, wanted)
    return ElectMasterAnswer.from_fields(answer.fields), read(ElectMasterResponseBody, answer)


async def forget_brokers(calls: Calls, controller: str, wanted: CleanBrokerData) -> None:
    """1011."""
    await calls.broker(controller, RequestCode.CLEAN_BROKER_DATA, wanted)


async def in_sync(calls: Calls, controller: str, broker_names: Iterable[str]) -> BrokerReplicasInfo:
    """1006."""
    body = encode_body(list(broker_names))
    return read(
        BrokerReplicasInfo, await calls.broker(controller, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=body)
    )


async def epochs(calls: Calls, address: str) -> EpochEntryCache:
    """1007, of a broker."""
    return read(EpochEntryCache, await calls.broker(address, RequestCode.GET_BROKER_EPOCH_CACHE))


async def add_broker(calls: Calls, container: str, config_path: str) -> None:
    """902. The path is one of the container's machine."""
    await calls.broker(container, RequestCode.ADD_BROKER, AddBroker(config_path=config_path))


async def remove_broker(calls: Calls, container: str, cluster: str, name: str, broker_id: int) -> None:
    """903."""
    header = RemoveBroker(broker_cluster_name=cluster, broker_name=name, broker_id=broker_id)
    await calls.broker(container, RequestCode.REMOVE_BROKER, header)
