"""The sets that controllers lead, in the coordination store: found by name, changed by comparing versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..coordination.store import (
    ABSENT,
    ChangeOutcome,
    Coordination,
    CoordinationUnreachable,
    Put,
    Snapshot,
    StoredKey,
    Verdict,
)
from ..errors import RequestRefused
from ..model.codes import ResponseCode as Code
from .replica_set import ReplicaSet, decode_set

LEAF = "controlled"
MOST_ATTEMPTS = 5  # of a change that others of the same set were faster than
_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")

# The set as it is to be; None: nothing is left of it. It may raise RequestRefused: nothing is changed then.
Decide = Callable[[ReplicaSet | None], ReplicaSet | None]


class ControlledSet(NamedTuple):
    """A set, and where it stands: below `root`. `version` is ABSENT where there is none yet."""

    root: str
    cluster: str
    name: str
    content: ReplicaSet | None
    version: int

    @property
    def key(self) -> str:
        return f"{self.root}{self.cluster}/{self.name}/{LEAF}"


class ControlledSets:
    """Event loop only. Reads are as a majority of the store has them; CoordinationUnreachable where it has none."""

    def __init__(self, coordination: Coordination, prefix: str) -> None:
        """`prefix`: what all keys begin with."""
        self._coordination = coordination
        self._root = f"{prefix.rstrip('/')}/"
        self._clusters: dict[str, str] = {}  # by broker name, where it was found last

    async def find(self, name: str, cluster: str = "") -> ControlledSet:
        """Return the set of this name. Without a cluster, the only one of all clusters that has it."""
        _check_name(name)
        if cluster:
            _check_name(cluster)
            return await self._read(cluster, name)
        known = self._clusters.get(name)
        if known is not None and (record := await self._read(known, name)).content is not None:
            return record
        found = [record for record in await self.all() if record.name == name]
        if len(found) > 1:
            clusters = ", ".join(record.cluster for record in found)
            raise RequestRefused(
                f"{name} is the name of sets in {clusters}: give one of them another name, since brokers ask by name",
                Code.CONTROLLER_INVALID_REQUEST,
            )
        if not found:
            return ControlledSet(self._root, "", name, None, ABSENT)
        self._clusters[name] = found[0].cluster
        return found[0]

    async def all(self) -> list[ControlledSet]:
        return list(_sets_in(await self._coordination.read(self._root), self._root))

    async def change(self, name: str, cluster: str, decide: Decide) -> ControlledSet:
        """Change a set as `decide` says, which is asked again when others were faster. Return what stands then.

        CoordinationUnreachable: whether it was done is not known, but it will not be done later than this."""
        for _ in range(MOST_ATTEMPTS):
            before = await self.find(name, cluster)
            wanted = decide(before.content)
            if wanted == before.content:
                return before
            done = await self._attempt(before, wanted)
            if done is not None:
                return done
        raise CoordinationUnreachable(f"others change {name} all the time: ask again")

    async def _attempt(self, before: ControlledSet, wanted: ReplicaSet | None) -> ControlledSet | None:
        """Return the set as it stands once the change is done; None: it was not, and never will be."""
        outcome = await self._write(before, wanted)
        if outcome.verdict is Verdict.DONE:
            return before._replace(content=wanted, version=outcome.revision if wanted else ABSENT)
        if outcome.verdict is Verdict.CONFLICT:
            return None
        # It may still be under way. Only another change of the key ends that: the same content under a new version.
        for _ in range(MOST_ATTEMPTS):
            found = await self._read(before.cluster, before.name)
            if found.version != before.version:
                return found if found.content == wanted else None
            if (await self._write(found, found.content)).verdict is Verdict.DONE:
                return None
        raise CoordinationUnreachable(f"the coordination store does not say whether {before.name} was changed")

    async def _write(self, record: ControlledSet, content: ReplicaSet | None) -> ChangeOutcome:
        puts = [] if content is None else [Put(record.key, content.encode())]
        deletes = [record.key] if content is None else []
        return await self._coordination.change({record.key: record.version}, puts, deletes)

    async def _read(self, cluster: str, name: str) -> ControlledSet:
        record = ControlledSet(self._root, cluster, name, None, ABSENT)
        found = (await self._coordination.read(record.key)).keys.get(record.key)
        return record if found is None else _with(record, found)


def _sets_in(snapshot: Snapshot, root: str) -> Iterator[ControlledSet]:
    for key, found in snapshot.keys.items():
        cluster, _, rest = key.removeprefix(root).partition("/")
        name, _, leaf = rest.partition("/")
        if leaf == LEAF:
            yield _with(ControlledSet(root, cluster, name, None, ABSENT), found)


def _with(record: ControlledSet, found: StoredKey) -> ControlledSet:
    return record._replace(content=decode_set(found.value, record.key), version=found.version)


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise RequestRefused(
            f"{name[:80]!r} is no name of a cluster or a broker: letters, digits, -, _, % and | are allowed",
            Code.CONTROLLER_INVALID_REQUEST,
        )
