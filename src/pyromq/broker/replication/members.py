"""Which brokers name servers know under this broker's name."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import PyroError
from ...model.topic import MASTER_ID
from ...protocol.headers.namesrv import GetBrokerMemberGroup
from ...protocol.requests import RequestCode as Code
from ...transport.client import RemotingClient
from ..registration import Identity
from .asking import ask

TIMEOUT_S = 3.0


async def slaves_known(client: RemotingClient, name_servers: Iterable[str], identity: Identity) -> list[str]:
    """Return the addresses of the other brokers of this name, as the first name server that answers knows them."""
    wanted = GetBrokerMemberGroup(cluster_name=identity.cluster, broker_name=identity.broker_name)
    for name_server in name_servers:
        try:
            _, answer = await ask(client, name_server, Code.GET_BROKER_MEMBER_GROUP, wanted, TIMEOUT_S)
        except PyroError:
            continue  # the registration says what is wrong with it
        members = answer.broker_member_group.broker_addrs if answer.broker_member_group is not None else {}
        return [one for broker_id, one in members.items() if broker_id != MASTER_ID and one != identity.address]
    return []
