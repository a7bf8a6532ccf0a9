"""What the clients in other languages have in common: a program sends or consumes, says so in one line and ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .process import Program, answer_of

Start = Callable[[], tuple[Sequence[str], Mapping[str, str]]]  # the command before its own words, its environment


class SmallClient:
    """Sends and consumes with tags through the client library of another language."""

    def __init__(self, name: str, start: Start) -> None:
        self._name = name
        self._start = start

    def told(self, **variables: str) -> SmallClient:
        """Return the same client with these in its environment."""

        def start() -> tuple[Sequence[str], Mapping[str, str]]:
            command, env = self._start()
            return command, {**env, **variables}

        return SmallClient(self._name, start)

    def send(self, name_server: str, topic: str, tag: str, bodies: Sequence[str], *, home: Path) -> list[Any]:
        """What the client says of each message, in its own words."""
        return self._run(["send", name_server, topic, tag, *bodies], home)

    def delay(self, name_server: str, topic: str, level: int, bodies: Sequence[str], *, home: Path) -> list[Any]:
        """The same with a delay level."""
        return self._run(["delay", name_server, topic, str(level), *bodies], home)

    def consume(
        self, name_server: str, topic: str, group: str, tags: str, count: int, *, home: Path, limit_s: int | None = None
    ) -> list[dict[str, str]]:
        """Body and tag of what a push consumer got, as soon as `count` have arrived; fewer after 30 s.

        `limit_s`: another time."""
        return self._run(["consume", name_server, topic, group, tags, str(count)], home, limit_s)

    def retry(
        self, name_server: str, topic: str, group: str, most: int, count: int, *, home: Path
    ) -> list[dict[str, str]]:
        """Fail every delivery: topic and number of retries of each, as soon as `count` have come."""
        return self._run(["retry", name_server, topic, group, str(most), str(count)], home)

    def transact(
        self, name_server: str, topic: str, group: str, checks: int, bodies: Sequence[str], *, home: Path
    ) -> list[str]:
        """Send transactional messages, each body its own fate; what the broker asked about until so many checks."""
        return self._run(["transact", name_server, topic, group, str(checks), *bodies], home)

    def request(self, name_server: str, topic: str, bodies: Sequence[str], limit_ms: int, *, home: Path) -> list[str]:
        """Ask, and wait for the answer to each; "timed out" where none came."""
        return self._run(["request", name_server, topic, str(limit_ms), *bodies], home)

    def _run(self, words: Sequence[str], home: Path, limit_s: int | None = None) -> list[Any]:
        home.mkdir(parents=True, exist_ok=True)
        command, env = self._start()
        more = {} if limit_s is None else {"CONSUME_LIMIT_S": str(limit_s)}
        with Program([*command, *words], name=self._name, env={"HOME": str(home), **env, **more}, cwd=home) as program:
            done: list[Any] = answer_of(program, timeout_s=60.0 if limit_s is None else limit_s + 30.0)
            return done
