"""The stream between master and follower of an elected set, as Java's auto-switch mode has it. Owns no socket.

The follower connects. It introduces itself, the master answers with its epochs, the follower cuts its log to where both
agree and reports its end; from then on the master sends the log from there, and the follower reports after each piece.

    follower   | 1 (4) | from last file (2) | learner (2) | broker id (8) |                          hello
               | 2 (4) | end of its log (8) |                                                        report
    master     | 1 (4) | 12 k (4) | end of its log (8) | epoch (4) | k times: epoch (4) | start (8) |   welcome
               | 2 (4) | n (4) | position (8) | epoch (4) | its start (8) | confirmed (8) | n bytes |   transfer

A transfer without bytes is a heartbeat. All numbers are big-endian.

What of Java's habits is borne: it says hello again while it waits, and a second answer would make it close, so `Guest`
answers once. The transfer that ends an epoch may bear the number of the next one. Java reads a hello only if all of its
bytes come at once: write what `encode_hello` returns with one call.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ...errors import ProtocolError
from .epochs import EpochList, MasterEpoch

_KIND = struct.Struct(">i")
_HELLO = struct.Struct(">ihhq")
_REPORT = struct.Struct(">iq")
_WELCOME = struct.Struct(">iiqi")
_EPOCH = struct.Struct(">iq")
_TRANSFER = struct.Struct(">iiqiqq")
_INTRODUCTION, _LOG = 1, 2

TRANSFER_HEAD_BYTES = _TRANSFER.size
MOST_BYTES = (4 << 20) - TRANSFER_HEAD_BYTES  # of one transfer: Java's follower reads into 4 MiB, head included
MOST_EPOCHS = 1000  # of one welcome: Java's master writes them into 12,000 bytes


class Hello(NamedTuple):
    """A follower introduces itself. `is_learner`: it never counts for an ack."""

    broker_id: int
    from_last_file: bool = False
    is_learner: bool = False


class ReplicaReport(NamedTuple):
    """The follower has the log up to this position."""

    position: int


class Welcome(NamedTuple):
    """The master's answer to a hello: its epoch, and what its log consists of."""

    end: int
    epoch: int
    epochs: EpochList


class Transfer(NamedTuple):
    """A stretch of the log, within one file and one epoch; without bytes a heartbeat.

    `confirmed`: up to here every member of the in-sync set has the log."""

    position: int
    epoch: MasterEpoch
    confirmed: int
    data: bytes = b""


def encode_hello(hello: Hello) -> bytes:
    return _HELLO.pack(_INTRODUCTION, hello.from_last_file, hello.is_learner, hello.broker_id)


def encode_report(position: int) -> bytes:
    return _REPORT.pack(_LOG, position)


def encode_welcome(welcome: Welcome) -> bytes:
    """Encode the answer. Of more epochs than a follower of Java's can read, the oldest are left out."""
    entries = welcome.epochs.entries[-MOST_EPOCHS:]
    head = _WELCOME.pack(_INTRODUCTION, _EPOCH.size * len(entries), welcome.end, welcome.epoch)
    return head + b"".join(_EPOCH.pack(*epoch) for epoch in entries)


def encode_transfer_head(position: int, length: int, epoch: MasterEpoch, confirmed: int) -> bytes:
    """Return what stands before `length` bytes of the log, which the caller sends from their file."""
    if not 0 <= length <= MOST_BYTES:
        raise ValueError(f"a transfer of {length} bytes: a follower takes {MOST_BYTES} at most")
    return _TRANSFER.pack(_LOG, length, position, *epoch, confirmed)


class Guest:
    """What a master hears on one connection: bytes in, a hello and reports out."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_known = False

    def feed(self, data: bytes) -> list[Hello | ReplicaReport]:
        """Return what came whole. A repeated hello is left out. Raises ProtocolError: close the connection."""
        data = self._rest + data
        found: list[Hello | ReplicaReport] = []
        at = 0
        while len(data) - at >= _KIND.size:
            kind = _KIND.unpack_from(data, at)[0]
            layout = _HELLO if kind == _INTRODUCTION else _REPORT
            if len(data) - at < layout.size:
                if kind not in (_INTRODUCTION, _LOG):
                    raise _unknown(kind)
                break
            if kind == _INTRODUCTION:
                self._greet(data, at, found)
            elif kind == _LOG:
                found.append(self._report(data, at))
            else:
                raise _unknown(kind)
            at += layout.size
        self._rest = data[at:]
        return found

    def _greet(self, data: bytes, at: int, found: list[Hello | ReplicaReport]) -> None:
        _, from_last_file, is_learner, broker_id = _HELLO.unpack_from(data, at)
        if broker_id < 0:
            raise ProtocolError(f"a follower says that its broker id is {broker_id}: ids begin at 1")
        if not self._is_known:
            found.append(Hello(broker_id, bool(from_last_file), bool(is_learner)))
        self._is_known = True

    def _report(self, data: bytes, at: int) -> ReplicaReport:
        position = _REPORT.unpack_from(data, at)[1]
        if not self._is_known:
            raise ProtocolError("a follower reports before it has said who it is")
        if position < 0:
            raise ProtocolError(f"a follower reports that its log ends at {position}")
        return ReplicaReport(position)


class Host:
    """What a follower hears on one connection: bytes in, a welcome and transfers out."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._welcome: Welcome | None = None

    def feed(self, data: bytes) -> list[Welcome | Transfer]:
        """Return what came whole. A repeated welcome is left out. Raises ProtocolError: close the connection."""
        self._rest += data
        found: list[Welcome | Transfer] = []
        at = 0
        while (taken := self._next(at, found)) > 0:
            at += taken
        del self._rest[:at]
        return found

    def _next(self, at: int, found: list[Welcome | Transfer]) -> int:
        """Take one message and return its length; 0: it is not whole yet."""
        there = len(self._rest) - at
        if there < _KIND.size:
            return 0
        kind = _KIND.unpack_from(self._rest, at)[0]
        if kind == _INTRODUCTION:
            return self._take_welcome(at, there, found)
        if kind == _LOG:
            return self._take_transfer(at, there, found)
        raise _unknown(kind)

    def _take_welcome(self, at: int, there: int, found: list[Welcome | Transfer]) -> int:
        if there < _WELCOME.size:
            return 0
        length: int
        _, length, end, epoch = _WELCOME.unpack_from(self._rest, at)
        if not 0 <= length <= MOST_EPOCHS * _EPOCH.size or length % _EPOCH.size or end < 0:
            raise ProtocolError(f"the master's answer has {length} bytes of epochs for a log that ends at {end}")
        first = at + _WELCOME.size
        if there < _WELCOME.size + length:
            return 0
        entries = (MasterEpoch(*_EPOCH.unpack_from(self._rest, first + each)) for each in range(0, length, _EPOCH.size))
        welcome = Welcome(end, epoch, EpochList(entries))
        if self._welcome is None:
            found.append(welcome)
            self._welcome = welcome
        elif (welcome.epoch, welcome.epochs) != (self._welcome.epoch, self._welcome.epochs):
            raise ProtocolError(
                f"the master said that its epoch is {self._welcome.epoch}, and now {epoch} with other entries"
            )
        return _WELCOME.size + length

    def _take_transfer(self, at: int, there: int, found: list[Welcome | Transfer]) -> int:
        if there < _TRANSFER.size:
            return 0
        length: int
        _, length, position, epoch, start, confirmed = _TRANSFER.unpack_from(self._rest, at)
        if self._welcome is None:
            raise ProtocolError("the master sends its log before it has said which epochs it has")
        if not 0 <= length <= MOST_BYTES or position < 0 or epoch < 0 or start < 0:
            raise ProtocolError(f"the master sends {length} bytes at {position}, of epoch {epoch} from {start}")
        whole = _TRANSFER.size + length
        if there < whole:
            return 0
        data = bytes(self._rest[at + _TRANSFER.size : at + whole])
        found.append(Transfer(position, MasterEpoch(epoch, start), confirmed, data))
        return whole


def _unknown(kind: int) -> ProtocolError:
    return ProtocolError(
        f"{kind} is no message of a replicated log: does the peer run in another mode (enableControllerMode), "
        "or is this the port of something else?"
    )
