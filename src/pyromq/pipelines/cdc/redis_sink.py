"""Rows as hashes of Redis: `PREFIX` + `shop.orders:7`, a field for each column that is not NULL, and `cdcNumber`.

A script of one round compares and writes, so no reader sees half a row, and no late event brings an old one back. What
was deleted is remembered for a time under `...#deleted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...errors import PyroError
from ...text.extras import install_command
from .rows import UNNUMBERED, RowWrite, as_text
from .sinks import Applied, OpenSink, SinkAway, SinkRefused, without_password

NUMBER = "cdcNumber"
# KEYS: the row, its mark. ARGV: number, delete|whole|part, seconds of the mark, how many fields go, they, fields.
_SCRIPT = """
local number = tonumber(ARGV[1])
if number >= 0 then
  local stands = tonumber(redis.call('HGET', KEYS[1], 'cdcNumber') or redis.call('GET', KEYS[2]) or '-1')
  if stands >= number then return 0 end
end
if ARGV[2] ~= 'part' then redis.call('DEL', KEYS[1]) end
if ARGV[2] == 'delete' then
  if number >= 0 then redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[3]) end
  return 2
end
redis.call('DEL', KEYS[2])
local gone = tonumber(ARGV[4])
for i = 5, 4 + gone do redis.call('HDEL', KEYS[1], ARGV[i]) end
for i = 5 + gone, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""


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
        except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError) as fault:
            raise SinkAway(f"{self._sink.place}: {fault}") from None
        except redis.RedisError as fault:
            raise SinkRefused(f"{self._sink.place}: {fault}") from None
        return Applied(answers.count(1), answers.count(2), answers.count(0))

    def _words(self, write: RowWrite) -> list[str | int]:
        if write.values is None:
            return [write.number, "delete", self._sink.remember_s, 0]
        gone = [name for name, value in write.values.items() if value is None]
        kept = {name: as_text(value) for name, value in write.values.items() if value is not None}
        if write.number != UNNUMBERED:
            kept[NUMBER] = str(write.number)
        fields = [word for pair in kept.items() for word in pair]
        return [write.number, "whole" if write.is_whole else "part", self._sink.remember_s, len(gone), *gone, *fields]
