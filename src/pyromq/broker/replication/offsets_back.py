"""A master that returns asks its slaves for the offsets that clients committed to them meanwhile, and takes the larger.

It does so before it registers: clients that learn of it then find the offsets there. Of a Java slave, which does not
know which commits are its own, all offsets are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ... import logs
from ...errors import CallRefused, PyroError
from ...model.codes import ResponseCode
from ...protocol.requests import RequestCode as Code
from ...transport.client import RemotingClient
from ..metadata.offsets import SEPARATOR, Offsets
from ..registration import Identity
from .adoption import Queues
from .asking import ask
from .members import slaves_known

log = logs.get("pyromq.broker")

TIMEOUT_S = 3.0


async def take_back_offsets(
    client: RemotingClient,
    name_servers: Iterable[str],
    identity: Identity,
    offsets: Offsets,
    queue_end: Callable[[str, int], int | None],
    ensure_group: Callable[[str], object],
) -> int:
    """Return how many offsets were raised. A slave or name server that does not answer is passed over, with a line.

    `queue_end`: of topic and queue; None: there is no such queue. Offsets beyond it are lowered to it: what the slave
    had and this log lost will be other messages. `ensure_group` is called with each group that came along: one that
    first consumed at the slave is known here before a member of it comes."""
    raised = 0
    for address in await slaves_known(client, name_servers, identity):
        try:
            found = await _commits(client, address)
        except PyroError as fault:
            log.warning("offsets that clients committed to a slave are not known", slave=address, why=str(fault))
            continue
        for key, queues in found.items():
            if count := _raise(offsets, key, queues, queue_end):
                raised += count
                ensure_group(key.partition(SEPARATOR)[2])
    if raised:
        log.info("offsets that clients committed to slaves are taken over", offsets=raised)
    return raised


async def _commits(client: RemotingClient, address: str) -> Mapping[str, Queues]:
    try:
        return (await ask(client, address, Code.OWN_COMMITS, timeout_s=TIMEOUT_S))[1].offsets
    except CallRefused as refusal:
        if refusal.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
    return (await ask(client, address, Code.GET_ALL_CONSUMER_OFFSET, timeout_s=TIMEOUT_S))[1].offset_table


def _raise(offsets: Offsets, key: str, queues: Queues, queue_end: Callable[[str, int], int | None]) -> int:
    topic, _, group = key.partition(SEPARATOR)
    raised = 0
    for queue_id, offset in queues.items():
        end = queue_end(topic, queue_id)
        known = offsets.find(topic, group, queue_id)
        if end is not None and (known is None or min(offset, end) > known):
            raised += offsets.commit(topic, group, queue_id, min(offset, end))
    return raised
