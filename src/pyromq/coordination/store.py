"""The seam to the store by which members of an elected set agree: four verbs, and what each of them promises.

    found = await coordination.read("/pyromq/c/a/")
    state = found.keys.get("/pyromq/c/a/state")
    outcome = await coordination.change({"/pyromq/c/a/state": state.version if state else ABSENT}, puts=[...])

`etcd.py` is the real one, `testing/coordination.py` the simulations'; `tests/coordination/contract.py` holds both to
what is said here. Safety of an elected set rests on `change` alone. A lease tells who is there, never who may write.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from ..errors import CallFailed, PyroError

ABSENT = 0  # the version of a key that is not there


class CoordinationUnreachable(CallFailed):
    """No answer came from any member of the store. What was asked may be asked again."""


class CoordinationRefused(PyroError):
    """The store answered that it will not do that. The text says what an operator has to change."""


class Verdict(Enum):
    """How a change ended."""

    DONE = "done"
    CONFLICT = "conflict"  # nothing was changed: a key has another version than expected, or a lease is over
    UNKNOWN = "unknown"  # nobody answered in time: it may be done, may never be, and may still be done later


class ChangeOutcome(NamedTuple):
    """A verdict, and for DONE the revision of the store that the change made."""

    verdict: Verdict
    revision: int = 0


class StoredKey(NamedTuple):
    """A key's value, and the revision of the change that wrote it: what `change` compares."""

    value: bytes
    version: int


class Snapshot(NamedTuple):
    """Keys as they stood together at one revision of the store."""

    keys: Mapping[str, StoredKey]
    revision: int


class Lease(Protocol):
    """Keys that were put with it vanish together when it is not renewed for `ttl_s`. They may stay longer."""

    @property
    def ttl_s(self) -> float: ...

    async def renew(self) -> bool:
        """Return False if the store says that it is over, for ever. Raises CoordinationUnreachable: not known."""
        ...

    async def release(self) -> None:
        """End it now, and its keys with it. Raises CoordinationUnreachable: then it ends by itself."""
        ...


class Put(NamedTuple):
    """A key to write. With a lease it vanishes when that is over."""

    key: str
    value: bytes
    lease: Lease | None = None


class Coordination(Protocol):
    """What an elected set needs of a store. Event loop only."""

    async def read(self, prefix: str) -> Snapshot:
        """Return all keys that begin so, as a majority has them now: never an older state than one seen before.

        Raises CoordinationUnreachable, CoordinationRefused."""
        ...

    async def change(
        self, expect: Mapping[str, int], puts: Sequence[Put] = (), deletes: Collection[str] = ()
    ) -> ChangeOutcome:
        """Write and delete these keys at once if each key of `expect` has its version; else change nothing.

        It is sent once at most. After UNKNOWN it may still be carried out, at any later time, while the versions that
        it expects stand: a read that shows them does not mean that it failed. Raises CoordinationRefused: not done."""
        ...

    async def hold(self, ttl_s: float) -> Lease:
        """Return a new lease; the store may give it a longer time. Raises CoordinationUnreachable, as `read`."""
        ...

    def watch(self, prefix: str, after: int) -> AsyncGenerator[int]:
        """Yield a revision whenever keys that begin so have changed since `after`, or since what was yielded last.

        Several changes may come as one, so a watcher reads then. It outlives restarts of the store and goes on at
        another member; it never ends by itself."""
        ...
