"""How `make test` divides the suite among its workers (pytest-xdist): what goes to one of them whole, and what first.

Read by tests/conftest.py in the process that hands out the tests. Folders whose tests share a costly part (Java's
servers, a Spark session, a recorded broker) go to one worker whole; everything else goes by file, so that fixtures of a
module are made once. The longest go first, and small files fill up the end.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# By name of the unit, longest first: folders that one worker runs in one go.
WHOLE: dict[str, tuple[str, ...]] = {
    "interop": ("tests/interop",),
    "spark": ("tests/spark", "tests/pipelines"),
    "mqadmin": ("tests/mqadmin",),
    "cdc": ("tests/cdc",),
}
_UNIT_OF = {folder: unit for unit, folders in WHOLE.items() for folder in folders}


def unit_of(nodeid: str) -> str:
    """Return the name of the unit that a test belongs to: that of a whole folder, else its file."""
    path = nodeid.partition("::")[0]
    return _UNIT_OF.get("/".join(PurePosixPath(path).parts[:2]), path)


def order_of(nodeid: str) -> int:
    """Return the place of a test's unit in `WHOLE`; everything else comes behind."""
    unit = unit_of(nodeid)
    return list(WHOLE).index(unit) if unit in WHOLE else len(WHOLE)


class Units(LoadScopeScheduling):
    """Hands out one unit after the other, in the order in which the workers collected them."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def schedule(self) -> None:
        """Hand out tests. A worker that came for one that ended, and got a single test, waits for another before
        he begins: he is told that there is none."""
        super().schedule()
        if self.collection and not self.workqueue:
            for node in self.nodes:
                if not node.shutting_down:
                    node.shutdown()

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test at which a worker ended, if any, and leave what it had not come to for the others.

        xdist would also hand out that test once more, and units in which nothing is left: nobody ever says that he is
        done with one of these, and the suite waits for it without an end.
        """
        workload = self.assigned_work.pop(node)
        left = [(unit, test) for unit, tests in workload.items() for test, is_done in tests.items() if not is_done]
        if not left:
            return None
        for unit, test in left[1:]:
            self.workqueue.setdefault(unit, {})[test] = False
        for other in self.nodes:
            self._reschedule(other)
        return left[0][1]
