"""Records scanned and keys hashed natively are what Python finds; what is odd or damaged is left to Python."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pyromq.kernel.python.keys import KEY, index_keys
from pyromq.kernel.python.placed import Placed, place_burst
from pyromq.kernel.python.scan import check_at, whole_places
from pyromq.protocol.record import MAGIC_V1, MAGIC_V2, Record, whole_record_crc
from tests.kernel.twins import native_module

LEVELS = {1: 1000, 2: 5000}
WORDS = st.text(alphabet="abc é\x7f", max_size=8)
PAIRS = st.lists(
    st.tuples(st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "DELAY", "INNER_NUM", "", "XKEYS", "__CRC32#"]), WORDS),
    max_size=5,
).map(lambda pairs: b"".join(f"{name}\x01{value}\x02".encode() for name, value in pairs))
PROPERTIES = PAIRS | PAIRS.map(lambda raw: raw[:-1]) | st.binary(max_size=20)
RECORDS = st.builds(
    Record,
    topic=st.sampled_from(["T", "Topic-2", "é", "SCHEDULE_TOPIC_XXXX"]),
    queue_id=st.integers(-1, 9),
    body=st.binary(max_size=40),
    properties=PROPERTIES,
    sys_flag=st.sampled_from([0, 0, 0, 4, 8, 12, 0xC0, 0x40]),
    queue_offset=st.integers(0, 1 << 40),
    born_host=st.sampled_from([bytes(8), bytes(20)]),
    store_host=st.sampled_from([bytes(8), bytes(20)]),
    magic=st.sampled_from([MAGIC_V1, MAGIC_V1, MAGIC_V2]),
)
AT = 1 << 33


def written(records: list[Record], with_crc: list[bool]) -> bytes:
    raw, position = b"", AT
    for record, crc in zip(records, with_crc, strict=True):
        buffers, _ = place_burst([msgspec.structs.replace(record)], position, 1_700_000_000_000, LEVELS, crc)
        raw += buffers[0]
        position += len(buffers[0])
    return raw


def scanned(view: memoryview) -> list[Placed]:
    """The records from the start of `view` on, one look at a time, up to the first that is none."""
    places: list[Placed] = []
    at = 0
    while isinstance(found := check_at(view, at, AT + at, LEVELS), Placed):
        places.append(found)
        at += found.size
    return places


@given(st.data())
def test_a_scan_is_a_beginning_of_what_python_finds(data: st.DataObject) -> None:
    records = data.draw(st.lists(RECORDS, max_size=6))
    raw = bytearray(written(records, [data.draw(st.booleans()) for _ in records]))
    for _ in range(data.draw(st.sampled_from([0, 0, 1, 2]))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = memoryview(bytes(raw[: len(raw) - data.draw(st.sampled_from([0, 0, 1, 30]))]))
    everything = scanned(cut)
    for places, sealed in (native_module().whole_places(cut, AT), whole_places(cut, AT)):
        assert places == everything[: len(places)]
        assert all(isinstance(one, Placed) for one in places)
        has_crc = [whole_record_crc(one.properties) is not None for one in places]
        assert sealed == (has_crc.index(False) if False in has_crc else len(places))


def test_plain_records_are_all_taken() -> None:
    tags = b"UNIQ_KEY\x01C0\x02KEYS\x01a b\x02TAGS\x01%d\x02"
    records = [Record(topic="T", queue_id=1, body=b"x", properties=tags % number) for number in range(50)]
    view = memoryview(written(records, [True] * 50))
    places, sealed = native_module().whole_places(view, AT)
    assert (places, sealed) == (scanned(view), 50)
    assert whole_places(view, AT) == (places, 50)


PLACES = st.builds(
    Placed,
    position=st.integers(0, 9),
    size=st.just(100),
    topic=st.sampled_from(["T", "Topic", "é"]),
    queue_id=st.just(0),
    queue_offset=st.just(0),
    sys_flag=st.sampled_from([0, 4, 8, 12]),
    store_time=st.sampled_from([1_700_000_000_000, 1_700_000_005_000]),
    tag_code=st.just(0),
    properties=PROPERTIES,
    messages=st.just(1),
)


@given(st.lists(PLACES, max_size=8), st.integers(-1, 9), st.booleans())
def test_keys_are_those_of_python(places: list[Placed], covered: int, with_tags: bool) -> None:
    found = native_module().index_keys(places, covered, with_tags)
    if found is None:
        return
    assert found == index_keys(places, covered, with_tags)


def test_keys_of_plain_records_are_hashed_here() -> None:
    places = [Placed(7, 100, "T", 0, 0, 0, 0, 0, b"UNIQ_KEY\x01u\x02KEYS\x01a  b\x02TAGS\x01t\x02", 1)]
    assert len(native_module().index_keys(places, -1, True)) == 4 * KEY.size
    assert native_module().index_keys(places, 7, True) == b""
