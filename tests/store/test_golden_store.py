"""Stores that the Java broker wrote: all in them is read as Java reads it, and our writer makes the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.boundary import Boundary
from pyromq.model.ids import offset_message_id, parse_offset_message_id
from pyromq.model.java_hash import java_hash
from pyromq.protocol.record import Record, decode_record
from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreDamaged
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import ManualClock
from tests.store.conftest import GoldenStore
from tests.store.golden_store import apply_variant
from tests.store.small import by_key
from tests.wire import decode_messages

Unpack = Callable[[str], GoldenStore]


def opened(golden: GoldenStore) -> MessageStore:
    return MessageStore(RealDisk(golden.root), golden.config, ManualClock())


@pytest.mark.parametrize("name", ["clean", "crashed"])
def test_every_queue_entry_of_the_manifest(golden_store: Unpack, name: str) -> None:
    golden = golden_store(name)
    store = opened(golden)
    for expected in golden.manifest["store"]["consumeQueues"]:
        queue = store.queues.get(expected["topic"], expected["queueId"])
        assert queue is not None
        assert queue.min_offset == expected["minOffset"]
        assert queue.next_offset >= expected["maxOffset"]
        for row in expected.get("entries") or expected["firstEntries"] + expected["lastEntries"]:
            fields = dict(zip(expected["fields"].split(","), row, strict=True))
            offset = fields["offset"] if "offset" in fields else fields["baseOffset"]
            entry = queue.entry_at(offset)
            assert entry is not None
            assert (entry.position, entry.size, entry.tag_code) == (
                fields["physicalOffset"],
                fields["size"],
                fields["tagsCode"],
            )
    store.close()


@pytest.mark.parametrize(("name", "answers"), [("clean", "answers"), ("crashed", "answersAfterRecovery")])
def test_minimum_and_maximum_offsets_and_earliest_times_as_java_answers(
    golden_store: Unpack, name: str, answers: str
) -> None:
    golden = golden_store(name)
    store = opened(golden)
    for expected in golden.manifest[answers]["queues"]:
        queue = store.queues.get(expected["topic"], expected["queueId"])
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.readable_end)
        assert (low, high) == (expected["min"], expected["max"]), expected
        if high:
            assert store.reader.store_time(expected["topic"], expected["queueId"], low) == expected["earliestStoreTime"]
    store.close()


@pytest.mark.parametrize(("name", "answers"), [("clean", "answers"), ("crashed", "answersAfterRecovery")])
def test_offsets_by_time_as_java_answers(golden_store: Unpack, name: str, answers: str) -> None:
    golden = golden_store(name)
    store = opened(golden)
    for expected in golden.manifest[answers]["searchOffsetByTimestamp"]:
        place = (expected["topic"], expected["queueId"], expected["timestamp"])
        assert store.reader.offset_by_time(*place, Boundary.LOWER) == expected["LOWER"] == expected["default"]
        assert store.reader.offset_by_time(*place, Boundary.UPPER) == expected["UPPER"]
    store.close()


def test_every_query_by_key_as_java_answers(golden_store: Unpack) -> None:
    golden = golden_store("clean")
    store = opened(golden)
    for expected in golden.manifest["answers"]["queryMessage"]:
        assert ids(by_key(store, expected["topic"], expected["key"])) == expected["offsetMsgIds"], expected
    store.close()


def test_after_a_crash_a_key_is_found_where_java_finds_it_or_more_often(golden_store: Unpack) -> None:
    golden = golden_store("crashed")
    store = opened(golden)
    for expected in golden.manifest["answersAfterRecovery"]["queryMessage"]:
        found = ids(by_key(store, expected["topic"], expected["key"]))
        assert set(found) >= set(expected["offsetMsgIds"]), expected
    store.close()


def test_every_record_is_found_by_its_unique_key(golden_store: Unpack) -> None:
    golden = golden_store("clean")
    store = opened(golden)
    for message in golden.manifest["store"]["messages"][::7]:
        unique = message["properties"].get("UNIQ_KEY")
        if unique is not None:
            assert message["offsetMsgId"] in ids(by_key(store, message["topic"], unique))
    store.close()


@pytest.mark.parametrize(("name", "answers"), [("clean", "answers"), ("crashed", "answersAfterRecovery")])
def test_views_by_place_as_java_answers(golden_store: Unpack, name: str, answers: str) -> None:
    golden = golden_store(name)
    store = opened(golden)
    for expected in golden.manifest[answers]["viewMessage"]:
        record = store.reader.record_at(expected["offset"])
        if expected["code"]:
            assert record is None
        else:
            assert record is not None
            assert (record.topic, record.size) == (expected["topic"], expected["length"])
    store.close()


@pytest.mark.parametrize(("name", "answers"), [("clean", "answers"), ("crashed", "answersAfterRecovery")])
async def test_pulls_as_java_answers(golden_store: Unpack, name: str, answers: str) -> None:
    golden = golden_store(name)
    store = opened(golden)
    for expected in golden.manifest[answers]["pullMessage"]:
        tags = None
        if expected["expression"] != "*":
            tags = {java_hash(tag.strip()) for tag in expected["expression"].split("||")}
        crosses_a_file = expected["topic"] == "GoldenRoll" and expected["offset"] in (990, 995)
        selection = store.reader.select(
            expected["topic"],
            expected["queueId"],
            expected["offset"],
            max_count=expected["maxMsgNums"],
            max_bytes=256 << 10,
            tag_codes=tags,
        )
        records = await store.read(selection)
        found = ids([decode_record(raw) for raw in records])
        assert selection.status.value == expected["remark"]
        assert (selection.min_offset, selection.max_offset) == (
            int(expected["extFields"]["minOffset"]),
            int(expected["extFields"]["maxOffset"]),
        )
        if crosses_a_file:  # Java stops at the end of the queue file, we go on
            assert found[: len(expected["offsetMsgIds"])] == expected["offsetMsgIds"]
            assert len(found) == expected["maxMsgNums"]
        else:
            assert found == expected["offsetMsgIds"]
            assert selection.next_offset == int(expected["extFields"]["nextBeginOffset"])
            assert sum(map(len, records)) == expected["bodyLength"]
    store.close()


async def test_inner_batches_are_pulled_whole_and_unwrap_to_their_offsets(golden_store: Unpack) -> None:
    store = opened(golden_store("clean"))
    selection = store.reader.select("GoldenBcq", 0, 0, max_count=32, max_bytes=1 << 20)
    messages = decode_messages(b"".join(await store.read(selection)))
    assert [message.queue_offset for message in messages] == list(range(16))
    store.close()


def test_opening_and_closing_changes_no_byte_of_log_queues_and_index(golden_store: Unpack) -> None:
    golden = golden_store("clean")
    before = content(golden.root)
    store = opened(golden)
    assert store.recovery.clean_stop
    assert store.recovery.records < 10  # bounded: nothing but the end was looked at
    store.close()
    assert content(golden.root) == before
    again = opened(golden)
    assert again.commit_log.end == golden.manifest["store"]["endOffset"]
    again.close()


def content(root: Path) -> dict[str, str]:
    folders = ("commitlog", "consumequeue", "batchconsumequeue", "index")
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


def ids(records: list[Record]) -> list[str]:
    return [offset_message_id(record.store_host, record.physical_offset) for record in records]


# -- our writer, given what Java's was given ------------------------------------------------------------------------


def test_our_writer_makes_the_same_bytes(golden_store: Unpack, tmp_path: Path) -> None:
    golden = golden_store("clean")
    clock = ManualClock()
    ours = tmp_path / "ours"
    store = MessageStore(
        RealDisk(ours, create=True), golden.config, clock, is_batch_topic=lambda topic: topic == "GoldenBcq"
    )
    source = opened(golden)
    for message in golden.manifest["store"]["messages"]:
        record = source.reader.record_at(message["physicalOffset"])
        assert record is not None
        clock.step_wall((message["storeTimestamp"] - clock.now_ms()) / 1000)
        (placed,) = store.put([as_sent(record)])
        assert (placed.position, placed.size) == (message["physicalOffset"], message["storeSize"])
    store.close()
    source.close()
    theirs, made = content(golden.root), content(ours)
    assert {name for name in made if not name.startswith("index/")} == {
        name for name in theirs if not name.startswith("index/")
    }
    for name, digest in made.items():
        if name.startswith(("consumequeue/", "batchconsumequeue/")):
            assert digest == theirs[name], name
        elif name.startswith("commitlog/"):
            assert used_part(ours / name) == used_part(golden.root / name), name
    assert index_bytes(ours) == index_bytes(golden.root)


def as_sent(record: Record) -> Record:
    """What the writer is given: nothing of what it assigns itself."""
    return Record(
        topic=record.topic,
        queue_id=record.queue_id,
        body=record.body,
        properties=record.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )


def used_part(path: Path) -> bytes:
    """A file up to and with its blank record: Java leaves behind it what was there before."""
    raw = path.read_bytes()
    blank = raw.find(bytes.fromhex("cbd43194"))
    return raw if blank < 0 else raw[: blank + 4]


def index_bytes(root: Path) -> list[bytes]:
    """Index files are named by when they were made, which our clock cannot repeat; their content is compared."""
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


# -- after a crash -----------------------------------------------------------------------------------------------------


def test_the_killed_store_recovers_to_the_offsets_that_java_reports(golden_store: Unpack) -> None:
    golden = golden_store("crashed")
    store = opened(golden)
    assert not store.recovery.clean_stop
    assert store.commit_log.end == golden.manifest["recovered"]["commitLogMaxOffset"]
    assert offsets(store) == {(t, q): (low, high) for t, q, low, high in golden.manifest["recovered"]["queues"]}
    store.close()


@pytest.mark.parametrize("variant", ["torn", "badcrc", "torn40"])
def test_damaged_variants_recover_to_javas_offsets_or_better(golden_store: Unpack, variant: str) -> None:
    golden = golden_store("crashed")
    facts: dict[str, Any] = golden.manifest["variants"][variant]
    apply_variant(golden.root, variant)
    expected = {(t, q): (low, high) for t, q, low, high in golden.manifest["recovered"]["queues"]}
    expected |= {(t, q): (low, high) for t, q, low, high in facts["queuesThatDiffer"]}
    store = opened(golden)
    found = offsets(store)
    assert store.commit_log.end >= facts["commitLogMaxOffset"]
    assert found.keys() == expected.keys()
    assert all(found[key][0] == low and found[key][1] >= high for key, (low, high) in expected.items())
    if variant == "badcrc":  # Java drops the five records behind the bad one, we keep them
        assert store.commit_log.end == golden.manifest["recovered"]["commitLogMaxOffset"]
        assert store.reader.record_at(facts["record"]) is None
    store.close()
    assert_bytes_behind_the_end_are_zero(golden.root, golden.config, store.commit_log.end)


def test_nothing_stale_is_left_behind_the_end(golden_store: Unpack) -> None:
    golden = golden_store("crashed")
    store = opened(golden)
    store.close()
    assert_bytes_behind_the_end_are_zero(golden.root, golden.config, store.commit_log.end)


def assert_bytes_behind_the_end_are_zero(root: Path, config: StoreConfig, end: int) -> None:
    size = config.commit_log_file_bytes
    files = sorted((root / "commitlog").iterdir())
    assert int(files[-1].name) == end - end % size
    assert not files[-1].read_bytes()[end % size :].strip(b"\0")


def offsets(store: MessageStore) -> dict[tuple[str, int], tuple[int, int]]:
    return {(q.topic, q.queue_id): (q.min_offset, q.readable_end) for q in store.queues if q.readable_end}


def test_all_acknowledged_messages_are_there_after_the_crash(golden_store: Unpack) -> None:
    golden = golden_store("crashed")
    store = opened(golden)
    for message in golden.manifest["store"]["messages"]:
        host, position = parse_offset_message_id(message["offsetMsgId"])
        record = store.reader.record_at(position)
        assert record is not None
        assert record.store_host == host
        assert record.queue_offset == message["queueOffset"]
    store.close()


@pytest.mark.parametrize("name", ["clean", "crashed"])
def test_a_store_whose_log_is_elsewhere_is_refused_and_left_as_it_is(golden_store: Unpack, name: str) -> None:
    """It was opened with an empty log, and its queues were emptied to fit."""
    golden = golden_store(name)
    elsewhere = golden.root.with_name("other-disk")
    (golden.root / "commitlog").rename(elsewhere)
    before = {file: file.read_bytes() for file in (golden.root / "consumequeue").rglob("*") if file.is_file()}
    with pytest.raises(StoreDamaged, match=r"no file of the log, but consumequeue has queues.*storePathCommitLog"):
        opened(golden)
    assert before == {file: file.read_bytes() for file in before}
    (golden.root / "commitlog").symlink_to(elsewhere)
    store = opened(golden)
    assert store.commit_log.end > 0
    store.close()
