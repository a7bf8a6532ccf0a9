"""A slave keeps its tables like its master's: all of them at once when it finds the master, then what has changed.

Once a second it asks which tables have changed (30006) and fetches those. A Java master does not know that request;
its tables are all fetched every 10 s. Topics, groups and modes count at once. Offsets and the progress of delays and
timers rest on records (a retry, a delivered message): they count once the log here reaches as far as the master's did
after they were fetched, so that a slave that takes over misses nothing that its tables call done.

The slave's role makes it, with `wiring/slave.py`, and runs it while it follows. It writes nothing to the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from ... import logs
from ...ambient import Clock
from ...errors import CallRefused, Malformed, PyroError
from ...model.codes import ResponseCode
from ...model.wire_text import whole_number
from ...protocol.bodies.heartbeat import SetMessageRequestModeRequestBody
from ...protocol.bodies.offsets import ConsumerOffsetSerializeWrapper
from ...protocol.bodies.own import TableVersions
from ...protocol.bodies.stats import TimerMetrics
from ...protocol.requests import RequestCode as Code
from ...store.timer.timer_state import TimerCheck
from ...transport.client import RemotingClient
from ...transport.turns.slices import Slices
from ..metadata.config_table import ConfigTable
from ..metadata.groups import Groups
from ..metadata.offsets import Offsets
from ..metadata.topics import Topics
from . import adoption
from .adoption import COUNTS, DEFINITIONS, DELAYS, GROUPS, MODES, OFFSETS, PROGRESS, TIMER, TOPICS, Pages, Queues
from .asking import ask, masters_counts, masters_groups, masters_timer, masters_topics
from .own_commits import OwnCommits

log = logs.get("pyromq.broker")

PERIOD_S = 1.0
JAVA_PERIOD_S = 10.0
REPEAT_S = 60.0  # what stays wrong is said again and again
LEAST_S_PER_PAIR = 20e-6  # between two fetches of all offsets: 10,000 pairs of topic and group come every 0.2 s at most

NOT_FOLLOWED = "as they were: no master is followed now"

C = TypeVar("C")
Modes = Mapping[str, Mapping[str, SetMessageRequestModeRequestBody]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlavesTables:
    """Where the master's tables go. What belongs to other capabilities is handed in as calls."""

    topics: Topics
    groups: Groups
    offsets: Offsets
    commits: OwnCommits
    adopt_modes: Callable[[Modes], None]
    adopt_levels: Callable[[Queues, int], Awaitable[None]]  # with the end of the log that they rest on
    adopt_timer: Callable[[int], Awaitable[None]]  # everything due before this time is delivered
    adopt_counts: Callable[[TimerMetrics], None]
    remove_queues: Callable[[str, int], None]  # of a topic that is deleted, with the end of the log then
    log_end: Callable[[], int]


@dataclass(slots=True)
class _Held:
    """Progress that was fetched, and waits for the log to be here up to `end`."""

    told: TableVersions | None
    fetched: set[str]
    end: int
    offsets: ConsumerOffsetSerializeWrapper | None = None
    levels: Queues | None = None
    timer: TimerCheck | None = None
    counts: TimerMetrics | None = None
    deleted: set[str] = field(default_factory=set)  # topics


class MetadataPull:
    """Event loop only. `master` says where the master is now; None: nobody knows."""

    def __init__(
        self, client: RemotingClient, clock: Clock, master: Callable[[], str | None], tables: SlavesTables
    ) -> None:
        self._client = client
        self._clock = clock
        self._master = master
        self._tables = tables
        self._slices = Slices(clock)
        self._limited = logs.Limited(log, clock, REPEAT_S)
        self._known: TableVersions | None = None
        self._held: _Held | None = None
        self._deleted: set[str] = set()  # topics that are gone at the master, whose queues are still here
        self._deleted_here: set[str] = set()  # topics that this slave was asked to delete: the master may have them
        self._offsets_not_before = float("-inf")
        self._wake = asyncio.Event()
        self.has_definitions = asyncio.Event()  # topics, groups and modes are the master's
        self.has_all = asyncio.Event()  # and the progress too
        self.state = NOT_FOLLOWED
        self.is_ours = False  # the master: it says when its log begins
        self.master_log: tuple[int, int] | None = None  # from where to where, as told last; ours say it each second

    def connected(self) -> None:
        """Fetch everything at once: the master is there, perhaps another one."""
        self._forget()
        self._wake.set()

    def _forget(self) -> None:
        """Forget what the master has told: one that comes back may have other tables."""
        if self._held is not None:
            self._deleted |= self._held.deleted
        self._known = self._held = None

    def topic_deleted(self, name: str) -> None:
        """Note that a topic was deleted here. Its queues go if the master has none of that name either; else it is
        back after the next round, with its messages and the master's offsets."""
        self._tables.commits.forget_topic(name)
        self._deleted_here.add(name)
        self._wake.set()

    async def run(self) -> None:
        """Follow until cancelled. What a client commits here meanwhile is noted as this slave's own."""
        self._tables.offsets.note_commit = self._tables.commits.note
        try:
            while True:
                self._wake.clear()
                await self._pause(await self._turn())
        finally:
            self._tables.offsets.note_commit = None
            self._tables.commits.store_changed()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self._wake.wait()

    async def _turn(self) -> float:
        """Do one round; return the seconds until the next."""
        address = self._master()
        self._tables.commits.store_changed()
        if address is None:
            self.state = NOT_FOLLOWED
            return PERIOD_S
        try:
            return await self.round(address)
        except PyroError as fault:
            self._forget()
            self.state = f"the tables of {address} cannot be fetched: {fault}"
            self._limited.warning("the master's tables cannot be fetched", master=address, why=str(fault))
            return PERIOD_S

    async def round(self, address: str) -> float:
        """Fetch what has changed at a master, and take it over. Return the seconds until the next round.

        CallFailed or Malformed: the master does not answer, or not sensibly."""
        told = await self._versions(address)
        await self._adopt_held()  # or a busy master's newer progress would always take its place
        wanted = adoption.outdated(self._known, told) | self._take_deleted_here()
        definitions = wanted & {*DEFINITIONS}
        await self._fetch_definitions(address, definitions)
        self._known = adoption.now_known(self._known, told, definitions)
        self.has_definitions.set()
        progress = self._wanted_progress(wanted)
        if self._held is None and (progress or self._deleted):
            self._held = await self._fetch_progress(address, progress, told)
            await self._adopt_held()
        self.state = f"as {address} has them"
        if self._held is not None:
            self.state += f", progress once the log is here up to {self._held.end}"
        return JAVA_PERIOD_S if told is None else PERIOD_S

    def _take_deleted_here(self) -> set[str]:
        """Return what to fetch because topics were deleted here, whatever the master's versions say."""
        deleted, self._deleted_here = self._deleted_here, set()
        self._deleted |= deleted
        return {TOPICS, OFFSETS} if deleted else set()

    def _wanted_progress(self, wanted: set[str]) -> set[str]:
        progress = wanted & {*PROGRESS}
        if self._clock.monotonic() < self._offsets_not_before:
            progress.discard(OFFSETS)
        return progress

    # --- asking ---------------------------------------------------------------------------------------------------

    async def _versions(self, address: str) -> TableVersions | None:
        """Return which versions the master has; None: it is Java's, and cannot say."""
        try:
            versions = (await ask(self._client, address, Code.TABLE_VERSIONS))[1]
        except CallRefused as refusal:
            if refusal.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            self.is_ours = False
            return None
        self.is_ours, self.master_log = True, (versions.log_start, versions.log_end)
        return versions

    async def _log_end(self, address: str, is_ours: bool) -> int:
        """Return where the master's log ends now, at least."""
        if is_ours:
            versions = await self._versions(address)
            if versions is not None:
                return versions.log_end
        _, facts = await ask(self._client, address, Code.GET_BROKER_RUNTIME_INFO)
        end = whole_number(facts.table.get("commitLogMaxOffset"))
        start = whole_number(facts.table.get("commitLogMinOffset")) or 0
        if end is None:
            raise Malformed(f"{address} does not say where its log ends (commitLogMaxOffset of request 28)")
        self.master_log = start, end
        return end

    # --- definitions ----------------------------------------------------------------------------------------------

    async def _fetch_definitions(self, address: str, wanted: set[str]) -> None:
        tables = self._tables
        if TOPICS in wanted:
            topics = tables.topics
            deleted = await self._adopt(topics, await masters_topics(self._client, address), topics.is_system)
            self._deleted = {name for name in self._deleted | deleted if name not in topics}
        if GROUPS in wanted:
            groups, forbidden = await masters_groups(self._client, address)
            await self._adopt(tables.groups, groups, lambda name: False)
            tables.groups.adopt_forbidden(forbidden)
        if MODES in wanted:
            _, modes = await ask(self._client, address, Code.GET_ALL_MESSAGE_REQUEST_MODE)
            tables.adopt_modes(modes.message_request_mode_map)

    async def _adopt(self, table: ConfigTable[C], pages: Pages[C], is_kept: Callable[[str], bool]) -> set[str]:
        """Make a table the master's, but for what `is_kept` although the master has none. Return what is gone."""
        gone = {name for name in table.all() if name not in pages.entries and not is_kept(name)}
        try:
            async for name in self._slices.each([*pages.entries, *gone]):
                table.adopt(name, pages.entries.get(name))
        finally:
            if pages.version is not None and pages.version != table.version:
                table.adopted(pages.version)
        return gone

    # --- progress -------------------------------------------------------------------------------------------------

    async def _fetch_progress(self, address: str, wanted: set[str], told: TableVersions | None) -> _Held:
        held = _Held(told, wanted, 0, deleted=self._deleted)
        if OFFSETS in wanted:
            _, offsets = await ask(self._client, address, Code.GET_ALL_CONSUMER_OFFSET)
            held.offsets = offsets
            pause_s = LEAST_S_PER_PAIR * len(offsets.offset_table)
            self._offsets_not_before = self._clock.monotonic() + pause_s
        if DELAYS in wanted:
            _, levels = await ask(self._client, address, Code.GET_ALL_DELAY_OFFSET)
            held.levels = levels.offset_table
        if TIMER in wanted:
            held.timer = await masters_timer(self._client, address)
        if COUNTS in wanted:
            held.counts = await masters_counts(self._client, address)
        held.end = await self._log_end(address, told is not None)
        self._deleted = set()
        return held

    async def _adopt_held(self) -> None:
        """Take over what was held, if the log is here as far as it rests on it."""
        held, tables = self._held, self._tables
        if held is None or tables.log_end() < held.end:
            return
        self._held = None
        if held.offsets is not None:
            await self._adopt_offsets(held.offsets)
        if held.levels is not None:
            await tables.adopt_levels(held.levels, held.end)
        if held.timer is not None:
            await tables.adopt_timer(held.timer.read_ms)
        if held.counts is not None:
            tables.adopt_counts(held.counts)
        for topic in held.deleted:
            if topic not in tables.topics:
                tables.remove_queues(topic, held.end)
        self._known = adoption.now_known(self._known, held.told, held.fetched)
        self.has_all.set()

    async def _adopt_offsets(self, theirs: ConsumerOffsetSerializeWrapper) -> None:
        offsets, commits = self._tables.offsets, self._tables.commits
        async for key in self._slices.each([*{**theirs.offset_table, **offsets.all(), **commits.all()}]):
            queues, left = adoption.merged(theirs.offset_table.get(key), commits.of(key))
            offsets.adopt(key, queues)
            commits.keep(key, left)
        if theirs.data_version is not None:
            offsets.version = theirs.data_version
