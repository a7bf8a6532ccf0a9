"""What brokers of one name ask each other (ours alone): which tables have changed (30006), which commits a slave has
that its master lacks (30007)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...protocol.bodies import own
from ...transport.dispatch import Reply, RequestOf
from .own_commits import OwnCommits


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableVersionHandlers:
    """Event loop only. `numbers`: by table, a number that is another one after each change. `life` is this start's."""

    life: str
    numbers: Mapping[str, Callable[[], int]]
    log_bounds: Callable[[], tuple[int, int]]
    commits: OwnCommits

    def versions(self, _: RequestOf[None, None]) -> Reply:
        changes = {name: number() for name, number in self.numbers.items()}
        start, end = self.log_bounds()
        return Reply(body=own.TableVersions(life=self.life, changes=changes, log_end=end, log_start=start))

    def own_commits(self, _: RequestOf[None, None]) -> Reply:
        return Reply(
            body=own.OwnCommitsAnswer(offsets={key: dict(queues) for key, queues in self.commits.all().items()})
        )
