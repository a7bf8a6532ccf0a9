"""Who may send a frame that the feeds could take, in readable Python: `native/guard.pxi` does the same in C.

One listener's: `AccessGuard`. It stands before all feeds where requests must be signed. What it does not know of goes
to the handlers untouched, and so do sends and pulls behind it, which must not overtake it. Event loop only.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field

from ...protocol.command import Command
from ...protocol.frame import FrameLimits
from ...protocol.headers.clients import COUNTED_USER
from ..guard import GuardedCodes, GuardHost
from ..seam import DRAIN, NOTHING, Fed, Feed, FeedConnection, as_fed
from .frames import MOST_FIELDS, code_of, decoded, frame_end
from .send_feed import Notes, SendFeed

_SENDS = (10, 310, 320, 324, 325, -1)  # -1: what may be a send
_PULLS = (11, 361)
_MOST_IDENTITIES = 20_000
_MOST_VERDICTS = 4096  # on one of them
_MOST_KEY = 4096  # bytes of names

Key = tuple[object, ...]


@dataclass(slots=True, eq=False, repr=False)
class KnownUser:
    """A user at one address, and what he may. Void once something about him changes."""

    name: bytes
    by_certificate: bool
    is_void: bool = False
    allowed: set[Key] = field(default_factory=set)  # the verdicts: code and names of requests that he may send


@dataclass(slots=True, eq=False, repr=False)
class _Buffer:
    """What became of a received buffer so far."""

    connection: FeedConnection
    notes: Notes
    left_send: bool = False
    left_any: bool = False
    drain: bool = False
    is_split: bool = False  # another user's frames follow: quotas count each user's by themselves


@dataclass(slots=True, eq=False, repr=False)
class AccessGuard:
    """`host` is the broker's side (`kernel/guard.py`). `inner` takes the frames that may pass; `sends` is the feed in
    it that minds the order of sends."""

    host: GuardHost
    sends: SendFeed
    inner: Feed
    codes: GuardedCodes
    frame_bytes: InitVar[int]
    header_bytes: InitVar[int]
    _limits: FrameLimits = field(init=False)
    _identities: dict[bytes, dict[Key, KnownUser]] = field(default_factory=dict, init=False)

    def __post_init__(self, frame_bytes: int, header_bytes: int) -> None:
        self._limits = FrameLimits(frame_bytes=frame_bytes, header_bytes=header_bytes, header_fields=MOST_FIELDS)

    def revoke(self, name: bytes) -> None:
        """Take back what is known of a user: he, his secrets or what he may have changed."""
        for identity in self._identities.pop(name, {}).values():
            identity.is_void = True

    def revoke_all(self) -> None:
        for name in list(self._identities):
            self.revoke(name)

    # --- frames ---------------------------------------------------------------------------------------------------

    def feed(self, connection: FeedConnection, received: memoryview) -> Fed | bytes:
        """Return what was done with the bytes: `kernel/seam.py` has the contract."""
        buffer = _Buffer(connection, self.sends.notes_of(connection))
        fed, at = Fed(), 0
        while True:
            first, at = at, self._behind_passing(buffer, received, at)
            end = frame_end(received, at, self._limits)
            if end < 0 and not first:
                return self.inner(connection, received) if at else NOTHING  # all of it passes, as nearly always
            if at > first:
                part = self._fed(connection, received[first:at])
                buffer.left_send = buffer.left_any = buffer.left_any or bool(part.frames)
                fed = _joined(fed, part)
            if end < 0:
                break
            if buffer.is_split:
                continue
            frame = received[at:end]
            buffer.left_any = True
            buffer.left_send = buffer.left_send or code_of(frame) in _SENDS
            fed = fed._replace(frames=(*fed.frames, frame))
            at = end
        buffer.notes.all_left = buffer.notes.all_left or buffer.left_send
        drain = fed.drain or buffer.drain
        if not fed.used:
            return DRAIN if drain else NOTHING
        return fed._replace(used=at, drain=drain)

    def _fed(self, connection: FeedConnection, piece: memoryview) -> Fed:
        """Return what the feeds did with whole frames, with those behind `used` among what they left."""
        fed = as_fed(self.inner(connection, piece), piece)
        frames, at = list(fed.frames), fed.used
        while at < len(piece):
            end = frame_end(piece, at, self._limits)
            frames.append(piece[at:end])
            at = end
        return fed._replace(frames=frames)

    def _behind_passing(self, buffer: _Buffer, received: memoryview, at: int) -> int:
        """Return what is behind the last of the frames from `at` on that pass. None overtakes one that was left."""
        first, buffer.is_split = at, False
        while (end := frame_end(received, at, self._limits)) > 0:
            frame = received[at:end]
            code = code_of(frame)
            if buffer.left_send and code in _SENDS:
                buffer.drain = True
                return at
            if (buffer.left_any and code in _PULLS) or not self._passes(buffer, frame, at == first):
                return at
            at = end
        return at

    def _passes(self, buffer: _Buffer, frame: memoryview, is_first: bool) -> bool:
        command = decoded(frame, self._limits) if code_of(frame) in self.codes else None
        if command is None or COUNTED_USER in command.fields:  # whose use it is the handlers find out
            return False
        connection, notes = buffer.connection, buffer.notes
        identity = self._signer(connection, notes, command)
        if identity is None:
            return False
        names = [command.fields.get(name.decode(), "") for name in self.codes[command.code]]
        key: Key = (command.code, *names) if names else (command.code, bytes(command.body))
        if not all(names) or sum(len(str(part)) for part in key) > _MOST_KEY:
            return False
        if key not in identity.allowed:
            if not self.host.allows(connection, identity.name, identity.by_certificate, bytes(frame)):
                return False
            if len(identity.allowed) >= _MOST_VERDICTS:
                identity.allowed.clear()
            identity.allowed.add(key)
        if notes.identity is not identity:
            buffer.is_split = not is_first and self.sends.allowances is not None and self.sends.allowances.is_on
            if buffer.is_split:
                return False  # it comes again as the first
            self.host.passed(connection, identity.name, identity.by_certificate)
            notes.identity, notes.user = identity, identity.name.decode()
        return True

    # --- who ------------------------------------------------------------------------------------------------------

    def _signer(self, connection: FeedConnection, notes: Notes, command: Command) -> KnownUser | None:
        """Return who has signed it, or whose certificate the connection shows; None: nobody that is known here."""
        named = command.fields.get("AccessKey")
        if named is None and "Signature" not in command.fields:
            shown = connection.identity
            return None if shown is None else self._identity_of(notes, shown.encode(), by_certificate=True)
        if named is None or not named.isascii():
            return None
        identity = self._identity_of(notes, named.encode(), by_certificate=False)
        return identity if identity is not None and self.host.is_signed(identity.name, command) else None

    def _identity_of(self, notes: Notes, name: bytes, *, by_certificate: bool) -> KnownUser | None:
        key = notes.source, by_certificate
        known = self._identities.get(name, {}).get(key)
        if known is None and self.host.secrets_of(name) is not None:
            if sum(map(len, self._identities.values())) >= _MOST_IDENTITIES:
                self.revoke_all()
            known = self._identities.setdefault(name, {})[key] = KnownUser(name, by_certificate)
        return known


def _joined(fed: Fed, part: Fed) -> Fed:
    return Fed(
        fed.used + part.used,
        fed.ready + part.ready,
        (*fed.waiting, *part.waiting),
        (*fed.frames, *part.frames),
        fed.drain or part.drain,
    )
