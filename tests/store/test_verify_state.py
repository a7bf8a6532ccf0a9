"""Small files that are damaged or gone: verify says that opening repairs them, and it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyromq.store.tools.findings import Level
from pyromq.store.tools.verify import verify_store
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.small import SMALL, bodies, message, opened

WHOLE = [b"%d" % number for number in range(30)]


def garbage(disk: SimulatedDisk, name: str) -> None:
    disk.open(name).pwrite(0, b"garbage!" * 5 + b"\n")


def short(disk: SimulatedDisk, name: str) -> None:
    disk.open(name).truncate(7)


def gone(disk: SimulatedDisk, name: str) -> None:
    disk.remove(name)


CASES = [
    (harm, name)
    for name in ("checkpoint", "pyromq/synced", "pyromq/catalogue", "pyromq/whole-crc")
    for harm in (garbage, short)
] + [(garbage, "pyromq/derived"), (gone, "checkpoint"), (gone, "pyromq/synced")]


@pytest.mark.parametrize(("harm", "name"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_opening_repairs_it(harm: Callable[[SimulatedDisk, str], None], name: str) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for number, body in enumerate(WHOLE):
        store.put([message(body, keys=f"k{number}")])
    store.close()
    assert verify_store(disk, SMALL).findings == []
    harm(disk, name)
    report = verify_store(disk, SMALL)
    assert report.exit_code == Level.REPAIRABLE
    assert {finding.file for finding in report.findings} == {name}
    store = opened(disk)
    assert bodies(store) == WHOLE
    store.close()
    assert verify_store(disk, SMALL).findings == []
