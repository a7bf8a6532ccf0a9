"""What tools and other brokers ask about replication: requests 906, 907 and 908, answered as Java 5.5.0 does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ....errors import RequestRefused
from ....protocol.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from ....protocol.headers.replication import ExchangeHaInfo
from ....transport.dispatch import Reply, Request, RequestOf
from ...registration import Identity
from ..settings import ReplicationSettings
from .sender import LogSender


@dataclass(slots=True, eq=False, repr=False)
class ReplicationStatus:
    """Event loop only. `followed`: a slave's view of its master; None: this broker is one itself."""

    identity: Identity
    settings: Callable[[], ReplicationSettings]
    senders: Callable[[], Iterable[LogSender]]
    end: Callable[[], int]
    first_end: int  # of the log, when the broker was started
    followed: Callable[[], HAClientRuntimeInfo | None]

    def show(self, request: Request) -> Reply:
        """Answer 907: how far each slave is, or how far this slave is."""
        followed = self.followed()
        if followed is not None:
            return Reply(body=HARuntimeInfo(ha_client_runtime_info=followed))
        end = self.end()
        slaves = [self._slave(sender, end) for sender in self.senders()]
        return Reply(
            body=HARuntimeInfo(
                master=True,
                master_commit_log_max_offset=end,
                ha_connection_info=slaves,
                in_sync_slave_nums=sum(slave.in_sync for slave in slaves),
            )
        )

    def _slave(self, sender: LogSender, end: int) -> HAConnectionRuntimeInfo:
        behind = end - sender.acked
        return HAConnectionRuntimeInfo(
            addr=sender.address,
            diff=behind,
            in_sync=sender.is_streaming and behind < self.settings().ha_max_gap_not_in_sync,
            slave_ack_offset=sender.acked,
            transfer_from_where=sender.sent,
            transferred_byte_in_second=sender.rate.last_bytes,
        )

    def exchange(self, request: RequestOf[ExchangeHaInfo, None]) -> Reply:
        """Answer 906: where this master's HA port is. Nobody tells this broker by it who its master is."""
        if request.header.master_ha_address is not None:
            raise RequestRefused(
                "this broker takes no master by request 906: name servers say where it is, or haMasterAddress does"
            )
        if self.followed() is not None:
            return Reply()
        found = ExchangeHaInfo(
            master_ha_address=self.identity.ha_address,
            master_flush_offset=self.first_end,
            master_address=self.identity.address,
        )
        return Reply(header=found)

    def reset(self, request: Request) -> Reply:
        """Answer 908: a slave forgets how far its master had flushed, which no slave of ours goes by."""
        return Reply()
