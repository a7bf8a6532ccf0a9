"""A follower's end of one stream of an elected set: a hello, the master's epochs, then its log and what is confirmed.

Bytes and moments in, bytes out: no socket, no clock. `elected_follower.py` has both. Nothing is taken before `follow`:
between the master's answer and that, somebody decides whether this log has to be cut. An epoch is on disk before a byte
of it is taken. Readers see what the master says is confirmed, as far as it is here.
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import ConnectionLost, ProtocolError
from ....protocol.replication.auto_switch import Hello, Host, Transfer, Welcome, encode_hello, encode_report
from ....store.epochs import EpochFile
from ....store.log.following import NotFollowed
from ....store.message_store import MessageStore
from .reporting import Reporting


class ElectedStream:
    """Event loop only. `welcome`: what the master has answered; None: nothing yet."""

    def __init__(self, me: int, heartbeat_s: float, silence_s: float) -> None:
        self._me = me
        self._host = Host()
        self._log: FollowedLog | None = None
        self.welcome: Welcome | None = None
        self.reporting = Reporting(self._reached, encode_report, heartbeat_s, silence_s)

    def begin(self, now: float) -> bytes:
        self.reporting.hear(now)
        return encode_hello(Hello(self._me))

    def follow(self, log: FollowedLog, now: float) -> bytes:
        """Return the first report. From here on the master's bytes go to this log."""
        log.restart()
        self._log = log
        return self.reporting.first(log.end, now)

    def receive(self, data: bytes, now: float) -> None:
        """Take what came. NotFollowed, ProtocolError or an error of the store: this stream has to end."""
        self.reporting.hear(now)
        for one in self._host.feed(data):
            if isinstance(one, Welcome):
                self.welcome = one
            elif self._log is None or self.welcome is None:
                raise ProtocolError("the master sends its log before it was told where to begin")
            elif one.epoch.number > self.welcome.epoch:
                raise ConnectionLost(f"the master has begun epoch {one.epoch.number}: it has to be joined anew")
            else:
                self._log.take(one)

    def report(self, now: float) -> bytes:
        return b"" if self._log is None else self.reporting.next(now)

    def _reached(self) -> int:
        return -1 if self._log is None else self._log.reached()


class FollowedLog:
    """This replica's log as a stream writes it. Event loop only; the only writer meanwhile.

    `reached`: up to where it answers for it: what is appended, or what is synced."""

    def __init__(self, store: MessageStore, epochs: EpochFile, reached: Callable[[], int]) -> None:
        self._store = store
        self._epochs = epochs
        self.reached = reached

    @property
    def is_empty(self) -> bool:
        return self._store.commit_log.start == self._store.commit_log.end

    @property
    def end(self) -> int:
        """Return where the log ends; 0 in an empty one, which begins wherever the master's does."""
        return 0 if self.is_empty else self._store.commit_log.end

    def restart(self) -> None:
        self._store.following.restart()

    def take(self, transfer: Transfer) -> None:
        """Save the epoch, take the bytes, let readers see what is confirmed."""
        following = self._store.following
        self._epochs.learn(transfer.epoch)
        if transfer.data:
            if self.is_empty and following.position == self._store.commit_log.end != transfer.position:
                following.begin_at(transfer.position)
            following.take(transfer.position, transfer.data)
        elif transfer.position != following.position and not self.is_empty:
            raise NotFollowed(f"the master is at {transfer.position}, this log at {following.position}")
        self._store.confirm(min(transfer.confirmed, self._store.commit_log.end))
