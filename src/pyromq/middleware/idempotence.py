"""Repeats are dropped: a message that this group has dealt with is acked without its handler.

    pyromq.connect(middleware=[pyromq.Idempotence()])                                       # in memory
    pyromq.Idempotence(pyromq.SeenInDatabase(lambda: sqlite3.connect("shop.db")))           # outlives the process
    pyromq.Idempotence(by="key")                                                            # by the sender's own key

A message is noted after its handler has ended well, so a crash in between repeats it: for exactly once, write the key
by the handler's own database transaction. Two deliveries of one message never run beside each other in a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Literal, Protocol

from .. import logs
from ..ambient import Clock, usual_clock
from ..client.consume.consume_service import InFlight
from ..client.handle.handlers import Outcomes
from ..client.middleware import HandleNext, Middleware
from ..client.produce.transaction_table import NotedRows
from ..client.received import Received

log = logs.get("pyromq.client")

DAY_S = 86_400.0
_STATEMENT_WORDS = 200  # in one question: databases bound the number of parameters

By = Literal["id", "key"] | Callable[[Received], str | None]


class Seen(Protocol):
    """Where the words of messages that are done are kept."""

    async def known(self, words: Sequence[str]) -> set[str]:
        """Return the words that were noted."""
        ...

    async def note(self, words: Sequence[str]) -> None: ...


class Idempotence(Middleware):
    """`by`: the producer's unique id, the first key, or a function; a message without such a word is always handled."""

    def __init__(self, seen: Seen | None = None, *, by: By = "id") -> None:
        self._seen = SeenInMemory() if seen is None else seen
        self._by = by
        self._in_work = InFlight()

    async def handle(self, messages: list[Received], call_next: HandleNext) -> Outcomes:
        words = [self._word(each) for each in messages]
        mine = tuple({each for each in words if each is not None})
        await self._in_work.enter(mine)
        try:
            known = await self._seen.known(mine)
            outcomes = await self._handle_new(messages, words, known, call_next)
            done = {word for word, fault in zip(words, outcomes, strict=True) if fault is None and word is not None}
            await self._note(sorted(done - known))
            return outcomes
        finally:
            self._in_work.leave(mine)

    async def _handle_new(
        self, messages: list[Received], words: list[str | None], known: set[str], call_next: HandleNext
    ) -> Outcomes:
        """Handle a batch. A repeat within it has the outcome of the first."""
        first: dict[str, int] = {}
        new: list[Received] = []
        places: list[int | None] = []  # in `new`; None: done long ago
        for message, word in zip(messages, words, strict=True):
            if word is not None and word in known:
                places.append(None)
                log.debug("a repeat is dropped", topic=message.topic, id=message.id)
                continue
            place = len(new) if word is None else first.setdefault(word, len(new))
            if place == len(new):
                new.append(message)
            places.append(place)
        outcomes = await call_next(new) if new else []
        return [None if place is None else outcomes[place] for place in places]

    async def _note(self, words: Sequence[str]) -> None:
        """Note the words as done, and only log a fault: the work is done, and must not be done again for it."""
        if not words:
            return
        try:
            await self._seen.note(words)
        except Exception as fault:
            log.error("what was handled could not be noted: a repeat would be handled again", fault=repr(fault))

    def _word(self, message: Received) -> str | None:
        """Return the key with the group in front: another group has to deal with the message too."""
        word: str | None
        if not isinstance(self._by, str):
            word = self._by(message)
        elif self._by == "id":
            word = message.id
        else:
            word = f"{message.topic}/{message.keys[0]}" if message.keys else None
        return None if word is None else f"{message.group}/{word}"


class SeenInMemory:
    """The latest `most` words of the last `keep_s` seconds. Event loop only; gone with the process."""

    def __init__(self, most: int = 100_000, keep_s: float = DAY_S, *, clock: Clock | None = None) -> None:
        self._most = most
        self._keep_s = keep_s
        self._monotonic = (clock or usual_clock).monotonic
        self._until: dict[str, float] = {}  # oldest first

    async def known(self, words: Sequence[str]) -> set[str]:
        now = self._monotonic()
        return {word for word in words if self._until.get(word, now) > now}

    async def note(self, words: Sequence[str]) -> None:
        until = self._monotonic() + self._keep_s
        for word in words:
            self._until.pop(word, None)
            self._until[word] = until
        while len(self._until) > self._most:
            del self._until[next(iter(self._until))]


class SeenInDatabase(NotedRows):
    """A table in any DB-API database, SQLite for instance. `connect` opens a connection; calls run in threads.

    `placeholder` is `?` or `%s`, as the driver wants it. `create` makes the table, `forget` removes old rows.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        table: str = "pyromq_handled",
        placeholder: str = "?",
        clock: Clock | None = None,
    ) -> None:
        super().__init__(connect, table, placeholder, clock)

    async def known(self, words: Sequence[str]) -> set[str]:
        return await asyncio.to_thread(self._known, words)

    async def note(self, words: Sequence[str]) -> None:
        await asyncio.to_thread(self._note, words)

    def _known(self, words: Sequence[str]) -> set[str]:
        found: set[str] = set()
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            for condition, part in self._conditions(words):
                cursor.execute(f"SELECT word FROM {self._table} {condition}", part)
                found.update(row[0] for row in cursor.fetchall())
        return found

    def _note(self, words: Sequence[str]) -> None:
        """Note the words. One that another process noted meanwhile is no fault: old rows go first."""
        now_ms = self._now_ms()
        with closing(self._connect()) as connection:
            with closing(connection.cursor()) as cursor:
                for condition, part in self._conditions(words):
                    cursor.execute(f"DELETE FROM {self._table} {condition}", part)
                cursor.executemany(self._insert, [(word, now_ms) for word in words])
            connection.commit()

    def _conditions(self, words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        for begin in range(0, len(words), _STATEMENT_WORDS):
            part = list(words[begin : begin + _STATEMENT_WORDS])
            yield f"WHERE word IN ({', '.join([self._placeholder] * len(part))})", part
