"""A replica of an elected set follows its master: it joins, and follows where its log agrees with the master's.

    stream = await join(connect, ha_address, me, clock, settings)   # hello and welcome
    if stream.epoch == the epoch that the set's state has:          # else close it: that is another master's time
        await stream.follow(store, epochs)                          # until it ends, which an exception says

`MustCut` says that this log has an end which the master's has not: whoever follows closes the store, cuts it
(store/cutting.py), opens it and joins anew. Nothing is reported before the logs agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .... import logs
from ....ambient import Clock
from ....errors import PyroError
from ....protocol.replication.epochs import EpochList
from ....store.epochs import EpochFile
from ....store.message_store import MessageStore
from ....transport.client import Connect
from ...election.joining import LogCut, cut_to_follow
from .elected_stream import ElectedStream, FollowedLog
from .follower import FollowSettings
from .joining import CannotFollow
from .stream_ends import StreamEnds, StreamTimes, connected

log = logs.get("pyromq.broker")


class MustCut(PyroError):
    """This log has an end that the master's log does not have: the store has to be closed and cut before it follows."""

    def __init__(self, cut: LogCut, end: int) -> None:
        super().__init__(f"this log ends at {end}, and is like the master's up to {cut.position}: it has to be cut")
        self.cut = cut


async def join(connect: Connect, address: str, me: int, clock: Clock, settings: FollowSettings) -> JoinedStream:
    """Connect to a master's HA port and hear which epochs it has. Nothing of its log is taken yet.

    Raises PortRefuses where nobody listens there, ConnectionLost, or ProtocolError for what is no such master."""
    stream = ElectedStream(me, settings.heartbeat_s, settings.silence_s)
    ends = await connected(stream, connect, address, clock)
    try:
        await ends.until(lambda: stream.welcome is not None)
    except BaseException:
        ends.close()
        raise
    return JoinedStream(stream, ends, address, clock, settings)


@dataclass(slots=True, eq=False, repr=False)
class JoinedStream:
    """A connection to a master that has welcomed this replica. Event loop only. Made by `join`, ended by `close`."""

    _stream: ElectedStream
    _ends: StreamEnds
    address: str
    _clock: Clock
    _settings: FollowSettings

    @property
    def epoch(self) -> int:
        """Return the epoch that the master leads."""
        assert self._stream.welcome is not None
        return self._stream.welcome.epoch

    @property
    def epochs(self) -> EpochList:
        """Return the epochs of the master's log."""
        assert self._stream.welcome is not None
        return self._stream.welcome.epochs

    @property
    def end(self) -> int:
        """Return where the master's log ended when it welcomed this replica."""
        assert self._stream.welcome is not None
        return self._stream.welcome.end

    @property
    def times(self) -> StreamTimes:
        """Return when something went over this stream."""
        return self._ends.times

    def close(self) -> None:
        """End the stream. Nothing is taken or reported from here on; `follow` raises."""
        self._ends.close()

    def needed_cut(self, store: MessageStore, epochs: EpochFile) -> LogCut:
        """Return where this log agrees with the master's: its own end, or a place to cut it to.

        CannotFollow: it never will, and has to be seeded anew."""
        commit_log = store.commit_log
        end = 0 if commit_log.start == commit_log.end else commit_log.end
        cut = cut_to_follow(epochs.list, end, self.epochs, self.end, confirmed=store.readable.value)
        if cut is None or (end and cut.position < commit_log.start):
            raise CannotFollow(
                f"this log, from {commit_log.start} to {commit_log.end} with {epochs.list}, has nothing in common with "
                f"that of {self.address}, with {self.epochs}. Move this store away: an empty replica gets everything "
                "from its master"
            )
        return cut

    async def follow(
        self,
        store: MessageStore,
        epochs: EpochFile,
        heard: Callable[[], None] = lambda: None,
        caught_up: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow until the stream ends, and raise why: ConnectionLost, NotFollowed, ProtocolError, or MustCut.

        `heard` is called when bytes have come. `caught_up` is called once, when this log has all that the master had
        when it welcomed this replica. Where epochs alone differ they are saved here; no store has to be closed."""
        try:
            self._agree(store, epochs)
            if self._settings.after_flush:
                await store.flush_log()
            followed = FollowedLog(store, epochs, lambda: self._reached(store))
            self._ends.write(self._stream.follow(followed, self._clock.monotonic()))
            log.info("following the master", ha=self.address, epoch=self.epoch, position=store.commit_log.end)
            await self._serve(store, heard, caught_up)
        finally:
            self.close()

    def _agree(self, store: MessageStore, epochs: EpochFile) -> None:
        cut = self.needed_cut(store, epochs)
        commit_log = store.commit_log
        if commit_log.start != commit_log.end and cut.position < commit_log.end:
            raise MustCut(cut, commit_log.end)
        if cut.epochs != epochs.list:
            epochs.keep(cut.epochs)

    def _reached(self, store: MessageStore) -> int:
        return store.flushed.value if self._settings.after_flush else store.commit_log.end

    async def _serve(self, store: MessageStore, heard: Callable[[], None], caught_up: Callable[[], None]) -> None:
        is_behind = True

        async def stirred() -> None:
            nonlocal is_behind
            heard()
            if self._settings.after_flush:
                await store.flush_log()
            if is_behind and self._reached(store) >= self.end:
                is_behind = False
                caught_up()

        await self._ends.serve(stirred)
