"""Hashes of Redis, looked at: found by their names, which have no order, so tasks divide them by a hash of the name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self
from zlib import crc32

import msgspec

from ...errors import PyroError
from ...model.wire_text import whole_number
from ..cdc.redis_sink import NUMBER, RedisSink
from ..cdc.rows import RowWrite, as_text
from .chunks import ComparedRow, TaskPart, compared
from .views import ComparedTable, OpenView

_AT_ONCE = 500
_SPECIAL = re.compile(r"([*?\[\]\\])")


@dataclass(frozen=True)
class RedisView:
    sink: RedisSink
    has_shares: bool = True

    @property
    def place(self) -> str:
        return self.sink.place

    def check(self) -> None:
        self.sink.check(dry_run=True)

    def at(self, table: ComparedTable) -> Self:
        return self

    def has_ranges(self, table: ComparedTable) -> bool:
        return False

    @contextmanager
    def opened(self, table: ComparedTable) -> Iterator[OpenView]:
        import redis

        words = {"decode_responses": True, "encoding_errors": "replace", "health_check_interval": 15}
        try:
            with redis.Redis.from_url(self.sink.url, **words) as client:
                yield _OpenRedis(client, f"{self.sink.prefix}{table.name}:", table)
        except redis.RedisError as fault:
            raise PyroError(f"{self.place}: {fault}") from None


class _OpenRedis:
    def __init__(self, client: Any, before: str, table: ComparedTable) -> None:
        self._client = client
        self._before = before
        self._table = table

    def expected(self, writes: Sequence[RowWrite]) -> Iterator[ComparedRow]:
        for write in writes:
            row = {name: as_text(value) for name, value in (write.values or {}).items() if value is not None}
            yield self._compared(write.name, row)

    def rows(self, piece: TaskPart) -> Iterator[ComparedRow]:
        names: list[str] = []
        for name in self._names(piece):
            names.append(name)
            if len(names) == _AT_ONCE:
                yield from self._read(names)
                names = []
        yield from self._read(names)

    def _names(self, piece: TaskPart) -> Iterator[str]:
        seen: set[int] = set()  # a scan may give a name twice
        pattern = _SPECIAL.sub(r"\\\1", self._before) + "*"
        for name in self._client.scan_iter(pattern, count=1000):
            if name.endswith("#deleted") or crc32(name.encode("utf-8", "replace")) % piece.shares != piece.share:
                continue
            if (mark := hash(name)) not in seen:
                seen.add(mark)
                yield name

    def _read(self, names: Sequence[str]) -> Iterator[ComparedRow]:
        pipeline = self._client.pipeline(transaction=False)
        for name in names:
            pipeline.hgetall(name)
        for name, row in zip(names, pipeline.execute(raise_on_error=False), strict=True):
            if row != {}:  # deleted since it was found
                fields = row if isinstance(row, dict) else {}  # somebody else's key, of another type
                yield self._compared(name.removeprefix(self._before), fields)

    def _compared(self, name: str, row: Mapping[str, str]) -> ComparedRow:
        key = {self._table.first: whole_number(name, -(1 << 63), 1 << 64)} if len(self._table.key) == 1 else {}
        if len(self._table.key) > 1:
            with suppress(msgspec.DecodeError):
                found = msgspec.json.decode(name)
                key = found if isinstance(found, dict) else {}
        return compared(key, self._table.first, row, self._table.columns, (NUMBER,))._replace(key=name)
