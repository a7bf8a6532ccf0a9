"""Which brokers name servers know under this broker's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ... import logs
from ...errors import PyroError
from ...model.topic import MASTER_ID
from ...protocol.headers.namesrv import GetBrokerMemberGroup
from ...protocol.requests import RequestCode as Code
from ...transport.client import RemotingClient
from ..registration import Identity
from .asking import ask

log = logs.get("pyromq.broker")

TIMEOUT_S = 3.0
ANOTHER_S = 1.0  # for another master to answer: this one is not registered meanwhile


async def slaves_known(client: RemotingClient, name_servers: Iterable[str], identity: Identity) -> list[str]:
    """Return the addresses of the other brokers of this name, as the first name server that answers knows them."""
    members = await members_known(client, name_servers, identity.cluster, identity.broker_name)
    return [one for broker_id, one in members.items() if broker_id != MASTER_ID and one != identity.address]


async def warn_of_another_master(client: RemotingClient, name_servers: Iterable[str], identity: Identity) -> None:
    """Log an error if another master of this name is registered and answers: clients would see now one, now the other.

    One that does not answer is gone, or was this broker at another address."""
    known = (await members_known(client, name_servers, identity.cluster, identity.broker_name)).get(MASTER_ID)
    if known is None or known == identity.address:
        return
    try:
        await ask(client, known, Code.GET_BROKER_RUNTIME_INFO, timeout_s=ANOTHER_S)
    except PyroError:
        return
    log.error(
        "another master has this broker's name: clients will see now one, now the other",
        name=identity.broker_name,
        other=known,
        remedy="give one of them another brokerName, or make it a slave (brokerRole=SLAVE brokerId=1)",
    )


async def members_known(
    client: RemotingClient, name_servers: Iterable[str], cluster: str, broker_name: str
) -> Mapping[int, str]:
    """Return the addresses of a name by number, as the first name server that answers knows them."""
    wanted = GetBrokerMemberGroup(cluster_name=cluster, broker_name=broker_name)
    for name_server in name_servers:
        try:
            _, answer = await ask(client, name_server, Code.GET_BROKER_MEMBER_GROUP, wanted, TIMEOUT_S)
        except PyroError:
            continue  # the registration says what is wrong with it
        return answer.broker_member_group.broker_addrs if answer.broker_member_group is not None else {}
    return {}
