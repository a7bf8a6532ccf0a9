"""What must hold of the logs of a simulated set at any moment, whoever is dead, paused or cut off.

Looked at whenever the store's state changes, and every few milliseconds: one master in each epoch; what any replica
shows is the same on all of them, byte by byte; what was shown is in the log of whoever leads, and never cut off.
"""

from __future__ import annotations

from pyromq.store.message_store import MessageStore
from tests.cluster.machines import BrokerMachine
from tests.cluster.processes import SimulatedProcess
from tests.simulation.checker import Violation


class LogChecker:
    """Keeps `confirmed`: all bytes of the log that any replica has shown."""

    def __init__(self, machines: list[BrokerMachine]) -> None:
        self._machines = machines
        self.confirmed = bytearray()
        self._compared: dict[int, tuple[SimulatedProcess, int]] = {}
        self._masters: dict[int, int] = {}
        self.elections = 0

    def look(self) -> None:
        """Raise Violation for what must not be."""
        for machine in self._machines:
            if machine.is_up:
                self._look_at(machine)

    def _look_at(self, machine: BrokerMachine) -> None:
        member, life, process = machine.member, machine.life, machine.process
        if member is None or life is None or process is None or not life.is_open:
            return
        store, readable = life.store, life.store.readable.value
        before, compared = self._compared.get(machine.number, (process, 0))
        if before is not process:
            compared = 0
        if readable < compared:
            raise Violation(f"readable of {machine.host} sank from {compared} to {readable}")
        if readable > compared:
            self._compare(machine, store, compared, readable)
        self._compared[machine.number] = process, readable
        if member.master is not None and not member.master.is_over and member.master.confirmed > 0:
            self._look_at_master(machine, store, member.master.epoch, member.me)

    def _look_at_master(self, machine: BrokerMachine, store: MessageStore, epoch: int, me: int) -> None:
        if epoch in self._masters:
            if self._masters[epoch] != me:
                raise Violation(f"epoch {epoch} has two masters: {self._masters[epoch]} and {me}")
            return
        self._masters[epoch] = me
        self.elections += 1
        end = store.commit_log.end
        if end < len(self.confirmed):
            raise Violation(f"{machine.host} leads epoch {epoch} with {end} bytes, {len(self.confirmed)} were shown")
        self._compare(machine, store, 0, len(self.confirmed))

    def _compare(self, machine: BrokerMachine, store: MessageStore, begin: int, end: int) -> None:
        log = store.commit_log
        at = begin
        while at < end:
            length = min(end, at - at % log.file_bytes + log.file_bytes) - at
            data = log.read(at, length)
            known = self.confirmed[at : at + length]
            if data[: len(known)] != known:
                raise Violation(f"{machine.host} shows other bytes between {at} and {at + length} than were shown")
            if at + length > len(self.confirmed):
                self.confirmed += data[len(known) :]
            at += length
