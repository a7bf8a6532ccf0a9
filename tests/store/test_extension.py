"""Stores of Java's with extension files: tag codes that are addresses are never taken for hashes of tags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyromq.store.files.real_disk import RealDisk
from pyromq.store.layout import FILLER_SIZE, QUEUE_ENTRY, QUEUE_ENTRY_BYTES
from pyromq.store.message_store import MessageStore
from pyromq.store.queues.java_queues import is_address
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from tests.store.conftest import GoldenStore

Unpack = Callable[[str], GoldenStore]
ADDRESS_ZERO = -(1 << 63)


def extend(root: Path) -> int:
    """As if it had been written with enableConsumeQueueExt=true; the number of entries that have an address now."""
    changed = 0
    for path in sorted((root / "consumequeue").glob("*/*/*")):
        queue = path.parent.relative_to(root / "consumequeue")
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), QUEUE_ENTRY_BYTES):
            position, size, _ = QUEUE_ENTRY.unpack_from(data, at)
            if 0 < size < FILLER_SIZE:
                QUEUE_ENTRY.pack_into(data, at, position, size, ADDRESS_ZERO + changed * 28)
                changed += 1
        path.write_bytes(data)
        (root / "consumequeue_ext" / queue).mkdir(parents=True, exist_ok=True)
        (root / "consumequeue_ext" / queue / f"{0:020d}").write_bytes(bytes(4096))
    return changed


def derived(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("consumequeue", "batchconsumequeue", "index")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


def opened(golden: GoldenStore) -> MessageStore:
    return MessageStore(RealDisk(golden.root), golden.config, ManualClock())


def test_addresses_and_tag_codes_are_told_apart() -> None:
    assert is_address(ADDRESS_ZERO)
    assert is_address(-(1 << 31) - 1)
    assert not any(is_address(code) for code in (-(1 << 31), -1, 0, (1 << 31) - 1, 1_700_000_000_000))


def test_opening_gives_the_entries_their_tag_hashes_again(golden_store: Unpack) -> None:
    golden = golden_store("clean")
    before = derived(golden.root)
    assert extend(golden.root) > 1000
    assert derived(golden.root) != before
    opened(golden).close()
    assert derived(golden.root) == before
    assert not (golden.root / "consumequeue_ext").exists()
    store = opened(golden)
    assert store.recovery.records == 1  # the second opening has nothing to do with it any more
    store.close()


def test_after_a_kill_as_well(golden_store: Unpack) -> None:
    golden = golden_store("crashed")
    extend(golden.root)
    store = opened(golden)
    codes = [
        entry.tag_code
        for queue in store.queues
        for offset in range(queue.min_offset, queue.readable_end)
        if (entry := queue.entry_at(offset)) is not None
    ]
    assert len(codes) > 1000
    assert not any(is_address(code) for code in codes)
    store.close()
    findings = verify_store(RealDisk(golden.root), golden.config).findings
    assert [finding for finding in findings if finding.file != "index"] == []  # there Java had lost keys before


def test_verify_says_it_once_and_that_opening_puts_it_right(golden_store: Unpack) -> None:
    golden = golden_store("clean")
    before = [finding.as_dict() for finding in verify_store(RealDisk(golden.root), golden.config).findings]
    extend(golden.root)
    findings = [finding.as_dict() for finding in verify_store(RealDisk(golden.root), golden.config).findings]
    new = [finding for finding in findings if finding not in before]
    assert [(finding["level"], finding["file"]) for finding in new] == [("repairable", "consumequeue_ext")]
