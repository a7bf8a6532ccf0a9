"""The settings of controller mode, with Java's keys. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ....config import setting
from ....errors import ConfigError
from ....model.wire_text import INT_MAX
from ....transport.address import parse_address


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerModeSettings:
    """Times are milliseconds, as Java's."""

    enable_controller_mode: bool = setting(
        False, help="this broker is a replica of a set whose master a controller names (controllerAddr)"
    )
    controller_addr: tuple[str, ...] = setting((), help="all controllers, host:port separated by ;")
    sync_broker_metadata_period: int = setting(
        5_000, low=1, help="controller mode: ms between two looks at who is master; a controller tells changes, too"
    )
    sync_controller_metadata_period: int = setting(
        10_000, low=1, help="controller mode: ms between two looks at which controller leads"
    )
    broker_heartbeat_interval: int = setting(1_000, low=1, help="controller mode: ms between heartbeats to controllers")
    controller_heart_beat_timeout_mills: int = setting(
        10_000, low=1, wide=True, help="controller mode: ms without a heartbeat, then this broker counts as dead"
    )
    broker_election_priority: int = setting(
        INT_MAX, low=0, help="controller mode: of replicas with equal logs the one with the smallest is elected"
    )
    ha_max_time_slave_not_catchup: int = setting(
        15_000, low=1, wide=True, help="controller mode: ms that a replica is behind, then it leaves the in-sync set"
    )

    def __post_init__(self) -> None:
        for address in self.controller_addr:
            try:
                parse_address(address)
            except ConfigError as fault:
                raise ConfigError(f"controllerAddr = {address}: {fault}") from None
        if self.enable_controller_mode and not self.controller_addr:
            raise ConfigError(
                "enableControllerMode = true: no controller is named; list all of them in controllerAddr, host:port "
                "separated by ;"
            )
