"""Pulls that find messages, from bytes to the answer, in readable Python: `native/pull_feed.pxi` does the same in C.

One listener's: `PullFeed`. What it does not answer goes to the handlers untouched, and then so does what comes behind
it on that connection. Event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field

from ...errors import RequestRefused
from ...protocol.command import Command, Encoding
from ...protocol.frame import FrameLimits
from ...protocol.headers.pull import PullMessage
from ...protocol.record import CRC_NAME, CRC_PROPERTY_BYTES
from ..pulls import AnswerPieces, PullCount, PullGrant, PullHost, PullQuery
from ..seam import DRAIN, NOTHING, Fed, FeedConnection, as_fed
from .frames import MOST_FIELDS, code_of, decoded, frame_end
from .pull import ENTRY_BYTES, Picked, Range, pick_entries
from .quotas.allowance import Allowance
from .scan import is_intact
from .send_feed import SendFeed
from .state import LogTail, ResidentFiles

_PULLS = (11, 361)
_COMMITS, _MAY_SUSPEND = 1, 2  # bits of a pull's flags
_ENOUGH_BYTES = 512 << 10  # of answers in one call: the rest of the buffer is for the handlers, which take turns
_MOST_KEY = 4096  # bytes of the fields that a verdict depends on: pulls with longer ones are for the handlers
_GRANT_BYTES = 1024  # that a verdict takes besides its key and its tags, about
_GRANTS_BYTES = 16 << 20  # of verdicts in use; as much again of those that were not used lately
_MOST_UNCOUNTED = 10_000

Key = tuple[object, ...]


@dataclass(slots=True, eq=False, repr=False)
class PullFeed:
    """`host` is the broker's side (`kernel/pulls.py`). What is no pull goes to `sends`, in the order it came."""

    host: PullHost
    sends: SendFeed
    log: LogTail
    records: ResidentFiles
    monotonic: Callable[[], float]
    frame_bytes: InitVar[int]
    header_bytes: InitVar[int]
    _limits: FrameLimits = field(init=False)
    _grants: dict[Key, PullGrant] = field(default_factory=dict, init=False)
    _unused: dict[Key, PullGrant] = field(default_factory=dict, init=False)  # since the last `forget_unused`
    _uncounted: list[PullGrant] = field(default_factory=list, init=False)
    grants_bytes: int = field(default=0, init=False)
    messages: int = field(default=0, init=False)
    suspended: int = field(default=0, init=False)
    longest_ms: float = field(default=0.0, init=False)

    def __post_init__(self, frame_bytes: int, header_bytes: int) -> None:
        self._limits = FrameLimits(frame_bytes=frame_bytes, header_bytes=header_bytes, header_fields=MOST_FIELDS)

    def forget_unused(self) -> None:
        """Drop the verdicts that no pull has used since the last call; also called when there are too many."""
        self._unused, self._grants = self._grants, {}
        self.grants_bytes = 0

    def take_counts(self) -> list[PullCount]:
        """Return what was handed out since the last call by each verdict."""
        counts = []
        for one in self._uncounted:
            place = one.queue.topic, one.group, one.queue.queue_id
            counts.append(PullCount(*place, one.messages, one.size, one.took_ms, one.answers, one.behind))
            one.messages = one.size = one.answers = 0
            one.took_ms = 0.0
        self._uncounted.clear()
        return counts

    # --- frames ---------------------------------------------------------------------------------------------------

    def feed(self, connection: FeedConnection, received: memoryview) -> Fed | bytes:
        """Return what was done with the bytes: `kernel/seam.py` has the contract."""
        frames, at = [], 0
        while (end := frame_end(received, at, self._limits)) > 0:
            frames.append((at, end, code_of(received[at:end]) in _PULLS))
            at = end
        if not any(is_pull for _, _, is_pull in frames):
            return self.sends.feed(connection, received)
        fed, behind, ready = Fed(), connection.unfinished > 0, 0
        for first, end, is_pull in _runs(frames):
            piece = received[first:end]
            if not is_pull:
                part = _whole(as_fed(self.sends.feed(connection, piece), piece), piece, self._limits)
            else:
                answer = None if behind or ready >= _ENOUGH_BYTES else self._serve(connection, piece)
                part = Fed(0, b"", (), (piece,)) if answer is None else Fed(len(piece), answer)
                ready += len(part.ready)
            fed = _joined(fed, part)
            behind = behind or bool(part.frames)
        if self.sends.allowances is not None:
            self.sends.allowances.flush(self.sends.notes_of(connection), connection)
        return fed._replace(used=at) if fed.used else DRAIN if fed.drain else NOTHING

    def resume(self, grant: PullGrant, frame: bytes, allowance: Allowance | None, offset: int) -> bytes | None:
        """Return the answer to a pull that was suspended, now from this offset on; None: the handler's to find one.
        `allowance`: what it draws from, if there are quotas."""
        command = decoded(memoryview(frame), self._limits)
        return None if command is None or grant.is_void else self._answer(grant, allowance, command, offset)

    def _serve(self, connection: FeedConnection, frame: memoryview) -> bytes | None:
        """Answer one pull or have it suspended; None: nothing was done about it."""
        command = decoded(frame, self._limits)
        header = None if command is None or command.flag or command.body else _header(command)
        if command is None or header is None:
            return None
        allowances, allowance = self.sends.allowances, None
        if allowances is not None and allowances.is_on:
            notes = self.sends.notes_of(connection)
            allowance = allowances.find(notes, header.topic, header.consumer_group)
            if allowance is None:
                return None
            if allowances.refuses(notes, allowance.reads, command):
                return b""
        grant = self._grant_for(command.code, header)
        if grant is None:
            return None
        offset, answer = header.queue_offset, b""
        if offset == grant.queue.readable_end and header.sys_flag & _MAY_SUSPEND:
            wait_ms = header.suspend_timeout_millis
            if not self.host.suspend(connection, grant, bytes(frame), allowance, offset, wait_ms):
                return None
            self.suspended += 1
        else:
            found = self._answer(grant, allowance, command, offset)
            if found is None:
                return None
            answer = found
        commit = header.commit_offset if header.sys_flag & _COMMITS else -1
        if commit >= 0 or grant.pulled is None:
            self.host.note_pull(grant, offset, max(commit, -1))
        else:
            grant.pulled.note(offset)
        return answer

    def _grant_for(self, code: int, header: PullMessage) -> PullGrant | None:
        """Return a verdict that holds; None: leave it to the handler."""
        texts = header.consumer_group, header.topic, header.subscription, header.expression_type
        numbers = header.queue_id, header.sys_flag, header.max_msg_nums, header.max_msg_bytes, header.sub_version
        if not all(text is None or text.isascii() for text in texts):
            return None
        size = sum(len(text or "") for text in texts)
        if size > _MOST_KEY:
            return None
        key: Key = (code, *texts, *numbers)
        grant = self._grants.get(key) or self._unused.pop(key, None)
        if grant is None or grant.is_void:
            if self._grants.pop(key, None) is not None:
                self.grants_bytes -= self._bytes_of(size, grant)
            grant = self.host.judge(_query(code, header))
        if grant is not None and key not in self._grants:
            if self.grants_bytes + self._bytes_of(size, grant) > _GRANTS_BYTES:
                self.forget_unused()
            self._grants[key] = grant
            self.grants_bytes += self._bytes_of(size, grant)
        return grant

    def _bytes_of(self, key_bytes: int, grant: PullGrant | None) -> int:
        return _GRANT_BYTES + key_bytes + 96 * len(() if grant is None or grant.codes is None else grant.codes)

    # --- reading --------------------------------------------------------------------------------------------------

    def _answer(self, grant: PullGrant, allowance: Allowance | None, command: Command, offset: int) -> bytes | None:
        """Return a whole frame; None: the handler's to answer, and nothing is changed."""
        begun = self.monotonic()
        queue, log_end = grant.queue, self.log.end
        if not queue.min_offset <= offset < queue.readable_end:
            return None
        picked = self._pick(grant, offset)
        body = None if picked is None or not picked.ranges else self._read(picked.ranges)
        if picked is None or body is None:
            return None
        numbers = [b"%d" % number for number in (picked.next_offset, queue.min_offset, queue.readable_end)]
        head = _head(grant.pieces, command, numbers, len(body))
        if len(head) + len(body) - 4 > self._limits.frame_bytes:
            return None
        self._count(grant, len(picked.ranges), len(body), log_end - picked.ranges[0].position, begun)
        if allowance is not None and self.sends.allowances is not None:
            allowance.charge_read(len(body), len(picked.ranges), self.sends.allowances.now())
        return head + body

    def _pick(self, grant: PullGrant, offset: int) -> Picked | None:
        """Return the records that the pull gets; None: entries are not in memory, or lie in two files."""
        until = min(grant.queue.readable_end - offset, grant.limits.entries)
        count = min(until, grant.limits.messages)
        while True:
            entries = grant.entries.read(offset * ENTRY_BYTES, count * ENTRY_BYTES)
            if entries is None:
                return None
            picked = pick_entries(
                entries, offset, grant.codes, grant.limits.messages, grant.limits.bytes, self.log.start
            )
            if count == until or picked.full or picked.next_offset < offset + count:
                return picked
            if len(picked.ranges) >= grant.limits.messages:
                return picked
            count = until  # some did not match: the rest of what may be scanned

    def _read(self, ranges: Sequence[Range]) -> bytes | None:
        """Return the records one behind the other; None unless all are in memory, whole, with a CRC of their own."""
        parts, first = [], 0
        while first < len(ranges):
            start, end, behind = ranges[first].position, ranges[first].position, first
            while behind < len(ranges) and ranges[behind].position == end:
                end += ranges[behind].size
                behind += 1
            part = self.records.read(start, end - start) if end <= self.log.end else None
            if part is None or not _is_sealed(part, ranges[first:behind]):
                return None
            parts.append(part)
            first = behind
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _count(self, grant: PullGrant, messages: int, size: int, behind: int, begun: float) -> None:
        """Count what is handed out. The broker reads the counters when somebody asks for them."""
        took_ms = (self.monotonic() - begun) * 1000
        if not grant.answers:
            if len(self._uncounted) >= _MOST_UNCOUNTED:
                self.host.read_counts()
            self._uncounted.append(grant)
        self.longest_ms = max(self.longest_ms, took_ms)
        self.messages += messages
        grant.messages += messages
        grant.size += size
        grant.answers += 1
        grant.took_ms += took_ms
        grant.behind = behind


def _is_sealed(part: bytes, ranges: Sequence[Range]) -> bool:
    """Return whether the part is these records, unharmed, each with a CRC over all of it."""
    view, at = memoryview(part), 0
    for position, size, _ in ranges:
        end = at + size
        if part[end - CRC_PROPERTY_BYTES : end].find(CRC_NAME) or not is_intact(view[at:end], position):
            return False
        at = end
    return True


def _header(command: Command) -> PullMessage | None:
    try:
        header = PullMessage.from_fields(command.fields)
    except RequestRefused:
        return None  # the handler says what is wrong
    return header if min(header.queue_id, header.queue_offset, header.suspend_timeout_millis) >= 0 else None


def _query(code: int, header: PullMessage) -> PullQuery:
    return PullQuery(
        code,
        header.consumer_group.encode(),
        header.topic.encode(),
        header.queue_id,
        header.sys_flag,
        header.max_msg_nums,
        header.max_msg_bytes,
        header.sub_version,
        None if header.subscription is None else header.subscription.encode(),
        None if header.expression_type is None else header.expression_type.encode(),
    )


def _head(pieces: AnswerPieces, command: Command, numbers: Sequence[bytes], body_bytes: int) -> bytes:
    if command.encoding is Encoding.JSON:
        texts = (*numbers, b"%d" % command.opaque)
        header = b"".join(piece + text for piece, text in zip(pieces.json, texts, strict=False)) + pieces.json[-1]
        word = len(header)
    else:
        counted = [len(number).to_bytes(4, "big") + number for number in numbers]
        header = b"".join(piece + text for piece, text in zip(pieces.binary, counted, strict=False)) + pieces.binary[-1]
        fields = (len(header) - pieces.block_at - 4).to_bytes(4, "big")
        opaque = (command.opaque & 0xFFFFFFFF).to_bytes(4, "big")
        header = header[:5] + opaque + header[9 : pieces.block_at] + fields + header[pieces.block_at + 4 :]
        word = 1 << 24 | len(header)
    return (4 + len(header) + body_bytes).to_bytes(4, "big") + word.to_bytes(4, "big") + header


def _runs(frames: Sequence[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """Join what is no pull: stretches of it go to the other feed as a whole."""
    runs: list[tuple[int, int, bool]] = []
    for first, end, is_pull in frames:
        if runs and not is_pull and not runs[-1][2]:
            runs[-1] = (runs[-1][0], end, False)
        else:
            runs.append((first, end, is_pull))
    return runs


def _whole(fed: Fed, piece: memoryview, limits: FrameLimits) -> Fed:
    """Return what a feed did with whole frames, with those behind `used` among what it left."""
    frames, at = list(fed.frames), fed.used
    while at < len(piece):
        end = frame_end(piece, at, limits)
        frames.append(piece[at:end])
        at = end
    return fed._replace(frames=frames)


def _joined(fed: Fed, part: Fed) -> Fed:
    return Fed(
        fed.used + part.used,
        fed.ready + part.ready,
        (*fed.waiting, *part.waiting),
        (*fed.frames, *part.frames),
        fed.drain or part.drain,
    )
