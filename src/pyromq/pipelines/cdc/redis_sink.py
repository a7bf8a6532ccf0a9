"""Rows as hashes of Redis: `PREFIX` + `shop.orders:7`, a field for each column that is not NULL, and `cdcNumber`.

A script of one round compares and writes, so no reader sees half a row, and no late event brings an old one back. What
was deleted is remembered for a time under `...#deleted`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...errors import PyroError
from ...text.extras import install_command
from .rows import UNNUMBERED, RowWrite, as_text
from .sinks import Applied, OpenSink, SinkAway, SinkRefused, without_password

NUMBER = "cdcNumber"
# KEYS: the row, its mark. ARGV: number, delete or write, seconds of the mark, how many fields stay, they, new fields.
_SCRIPT = """
local number = tonumber(ARGV[1])
if number >= 0 then
  local stands = tonumber(redis.call('HGET', KEYS[1], 'cdcNumber') or redis.call('GET', KEYS[2]) or '-1')
  if stands >= number then return 0 end
end
if ARGV[2] == 'delete' then
  redis.call('DEL', KEYS[1])
  if number >= 0 then redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[3]) end
  return 2
end
local gone = {}
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do gone[name] = true end
for i = 5, 4 + ARGV[4] do gone[ARGV[i]] = nil end
for i = 5 + ARGV[4], #ARGV, 2 do -- before all that frees memory: Redis refuses a script only before it has written
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  gone[ARGV[i]] = nil
end
for name in pairs(gone) do redis.call('HDEL', KEYS[1], name) end
redis.call('DEL', KEYS[2])
return 1
"""
# KEYS: the row, its mark. ARGV: number, seconds of the mark.
_SWEEP = """
if tonumber(redis.call('HGET', KEYS[1], 'cdcNumber') or '-1') >= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
return 1
"""
_SCANNED = 1_000  # keys at once
# What is wrong with a row itself: its name is that of something else than a hash, or a value is too large.
_REFUSALS = ("WRONGTYPE", "string exceeds maximum allowed size")


@dataclass(frozen=True)
class RedisSink:
    url: str
    prefix: str = ""
    remember_s: int = 7 * 86_400  # that a row was deleted

    @property
    def place(self) -> str:
        return without_password(self.url)

    def check(self, *, dry_run: bool = False) -> None:
        """Raise PyroError if the package is missing, or no server answers."""
        try:
            import redis
        except ImportError:
            raise PyroError(f"Redis needs the package redis: {install_command('sinks')}") from None
        try:
            with redis.Redis.from_url(self.url) as client:
                client.ping()
        except (redis.RedisError, ValueError) as fault:
            raise PyroError(f"{self.place} cannot be used: {fault}. Write --redis redis://HOST:PORT/DATABASE") from None

    @contextmanager
    def opened(self) -> Iterator[OpenSink]:
        import redis

        with redis.Redis.from_url(self.url, health_check_interval=15) as client:
            yield _OpenRedis(client, self)


class _OpenRedis:
    def __init__(self, client: Any, sink: RedisSink) -> None:
        self._client = client
        self._sink = sink
        self._script = client.register_script(_SCRIPT)

    def apply(self, writes: Sequence[RowWrite]) -> Applied:
        import redis

        try:
            pipeline = self._client.pipeline(transaction=False)
            for write in writes:
                row = f"{self._sink.prefix}{write.table}:{write.name}"
                self._script(keys=[row, f"{row}#deleted"], args=self._words(write), client=pipeline)
            answers = pipeline.execute()
        except redis.DataError as fault:
            raise SinkRefused(f"{self._sink.place}: {fault}") from None
        except redis.RedisError as fault:  # unreachable, memory or disk full, a replica, no rights: all pass
            if any(words in str(fault) for words in _REFUSALS):
                raise SinkRefused(f"{self._sink.place}: {fault}") from None
            raise SinkAway(f"{self._sink.place}: {fault}") from None
        return Applied(answers.count(1), answers.count(2), answers.count(0))

    def sweep(self, table: str, below: int) -> int:
        """Look at all keys: Redis has no list of those of a table. Readers and writers go on meanwhile."""
        import redis

        script, deleted = self._client.register_script(_SWEEP), 0
        like = re.sub(r"([*?\[\]\\])", r"\\\1", f"{self._sink.prefix}{table}:") + "*"
        try:
            for row in self._client.scan_iter(like, count=_SCANNED, _type="hash"):
                mark = row + (b"#deleted" if isinstance(row, bytes) else "#deleted")
                deleted += script(keys=[row, mark], args=[below, self._sink.remember_s])
        except redis.RedisError as fault:
            raise SinkAway(f"{self._sink.place}: {fault}") from None
        return deleted

    def _words(self, write: RowWrite) -> list[str | int]:
        if write.values is None:
            return [write.number, "delete", self._sink.remember_s, 0]
        fields = {name: as_text(value) for name, value in write.values.items() if value is not None}
        if write.number != UNNUMBERED:
            fields[NUMBER] = str(write.number)
        words = [word for pair in fields.items() for word in pair]
        return [write.number, "write", self._sink.remember_s, len(write.kept), *sorted(write.kept), *words]
