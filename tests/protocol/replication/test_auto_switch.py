"""The auto-switch stream: Java's recorded bytes, cut anywhere; what no peer may say; Java's habits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.protocol.replication.auto_switch import (
    MOST_BYTES,
    Guest,
    Hello,
    Host,
    ReplicaReport,
    Transfer,
    Welcome,
    encode_hello,
    encode_report,
    encode_transfer_head,
    encode_welcome,
)
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from tests.protocol.replication.recorded_streams import RUNS, RecordedConnection, connections

FIRST = EpochList([MasterEpoch(1, 0)])
SECOND = EpochList([MasterEpoch(1, 0), MasterEpoch(2, 48997)])
RECORDED = [(f"{run} {number}", one) for run in RUNS for number, one in connections(run).items()]
IDS = [name for name, _ in RECORDED]


def encode_transfer(one: Transfer) -> bytes:
    return encode_transfer_head(one.position, len(one.data), one.epoch, one.confirmed) + one.data


@pytest.mark.parametrize(
    ("wire", "encoded"),
    [
        ("00000001 0000 0000 0000000000000002", encode_hello(Hello(2))),
        ("00000001 0001 0001 0000000000000003", encode_hello(Hello(3, from_last_file=True, is_learner=True))),
        ("00000002 000000000000071a", encode_report(1818)),
        (
            "00000001 0000000c 000000000000071a 00000001 00000001 0000000000000000",
            encode_welcome(Welcome(1818, 1, FIRST)),
        ),
        (
            "00000001 00000018 0000000000019043 00000002 00000001 0000000000000000 00000002 000000000000bf65",
            encode_welcome(Welcome(102467, 2, SECOND)),
        ),
        (
            "00000002 00000000 000000000000071a 00000001 0000000000000000 000000000000071a",
            encode_transfer_head(1818, 0, MasterEpoch(1, 0), 1818),
        ),
    ],
)  # fmt: skip
def test_vectors_recorded_from_java(wire: str, encoded: bytes) -> None:
    assert encoded == bytes.fromhex(wire)


@pytest.mark.parametrize("recorded", [one for _, one in RECORDED], ids=IDS)
def test_a_recorded_connection_is_read_and_written_again_byte_by_byte(recorded: RecordedConnection) -> None:
    sent = b"".join(recorded.from_master)
    host = Host()
    heard = [one for piece in recorded.from_master for one in host.feed(piece)]
    written = [encode_welcome(one) if isinstance(one, Welcome) else encode_transfer(one) for one in heard]
    welcomes = sent.count(written[0]) if written else 0  # Java answers each hello; ours hears the first
    assert len(b"".join(written)) == len(sent) - max(welcomes - 1, 0) * len(written[0] if written else b"")

    guest = Guest()
    said = [one for piece in recorded.from_follower for one in guest.feed(piece)]
    hellos = [one for one in said if isinstance(one, Hello)]
    again = [encode_hello(one) if isinstance(one, Hello) else encode_report(one.position) for one in said]
    assert len(hellos) == 1
    assert b"".join(again) in b"".join(recorded.from_follower).replace(again[0] * 2, again[0])


@pytest.mark.parametrize("recorded", [one for _, one in RECORDED], ids=IDS)
def test_recorded_transfers_have_no_gap(recorded: RecordedConnection) -> None:
    host = Host()
    heard = [one for piece in recorded.from_master for one in host.feed(piece)]
    transfers = [one for one in heard if isinstance(one, Transfer)]
    for before, after in pairwise(transfers):
        assert after.position == before.position + len(before.data)
    epochs = EpochList()
    for one in transfers:
        epochs = epochs.learned(*one.epoch)
    if transfers:
        welcome = next(one for one in heard if isinstance(one, Welcome))
        assert set(epochs.entries) <= set(welcome.epochs.entries)


@pytest.mark.parametrize("recorded", [one for _, one in RECORDED], ids=IDS)
@pytest.mark.parametrize("side", ["follower", "master"])
def test_a_stream_may_be_cut_at_every_byte(recorded: RecordedConnection, side: str) -> None:
    make: Callable[[], Guest | Host] = Guest if side == "follower" else Host
    wire = b"".join(recorded.from_follower if side == "follower" else recorded.from_master)[:6000]
    whole = make().feed(wire)
    assert whole or len(wire) < 36
    for cut in range(len(wire) + 1):
        decoder = make()
        assert [*decoder.feed(wire[:cut]), *decoder.feed(wire[cut:])] == whole
    decoder = make()
    assert [one for byte in wire for one in decoder.feed(bytes([byte]))] == whole


POSITIONS = st.integers(0, (1 << 63) - 1)
EPOCHS = st.builds(MasterEpoch, st.integers(0, (1 << 31) - 1), POSITIONS)
TRANSFERS = st.builds(Transfer, POSITIONS, EPOCHS, POSITIONS, st.binary(max_size=50))


@given(st.lists(TRANSFERS, max_size=5), st.lists(st.integers(0, 400), max_size=6))
def test_any_transfers_in_any_pieces_come_as_they_were_sent(transfers: list[Transfer], cuts: list[int]) -> None:
    wire = encode_welcome(Welcome(5, 1, FIRST)) + b"".join(map(encode_transfer, transfers))
    places = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    host = Host()
    heard = [one for low, high in pairwise(places) for one in host.feed(wire[low:high])]
    assert heard == [Welcome(5, 1, FIRST), *transfers]


def test_a_hello_counts_once() -> None:
    guest = Guest()
    assert guest.feed(encode_hello(Hello(2)) * 2) == [Hello(2)]
    assert guest.feed(encode_hello(Hello(2)) + encode_report(7)) == [ReplicaReport(7)]


def test_a_welcome_may_come_twice_and_must_say_the_same() -> None:
    host = Host()
    assert host.feed(encode_welcome(Welcome(5, 1, FIRST))) == [Welcome(5, 1, FIRST)]
    assert host.feed(encode_welcome(Welcome(9, 1, FIRST))) == []
    with pytest.raises(ProtocolError, match="epoch is 1, and now 2"):
        host.feed(encode_welcome(Welcome(9, 2, FIRST)))


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (encode_report(5), "before it has said who it is"),
        (bytes.fromhex("00000003"), "no message of a replicated log"),
        (bytes.fromhex("00000000 0000000000000000"), "no message of a replicated log"),
        (encode_hello(Hello(-1)), "ids begin at 1"),
        (encode_hello(Hello(2)) + encode_report(-1), "ends at -1"),
    ],
)
def test_a_follower_that_says_what_cannot_be_is_refused(wire: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        Guest().feed(wire)


WELCOME = encode_welcome(Welcome(5, 1, FIRST))


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (encode_transfer_head(5, 0, MasterEpoch(1, 0), 5), "before it has said which epochs"),
        (bytes.fromhex("7fffffff"), "no message of a replicated log"),
        (bytes.fromhex("00000001 00002ee4") + bytes(12), "bytes of epochs"),
        (bytes.fromhex("00000001 0000000d") + bytes(12), "bytes of epochs"),
        (bytes.fromhex("00000001 fffffff4") + bytes(12), "bytes of epochs"),
        (encode_welcome(Welcome(-1, 1, FIRST)), "ends at -1"),
        (WELCOME + bytes.fromhex("00000002 ffffffff") + bytes(28), "sends -1 bytes"),
        (WELCOME + bytes.fromhex("00000002 00400000") + bytes(28), "sends 4194304 bytes"),
        (WELCOME + encode_transfer_head(-5, 0, MasterEpoch(1, 0), 5), "at -5"),
        (WELCOME + encode_transfer_head(5, 0, MasterEpoch(-1, 0), 5), "epoch -1"),
        (bytes.fromhex("00000001 00000018") + bytes(12) + bytes(24), "have to grow"),
    ],
)  # fmt: skip
def test_a_master_that_says_what_cannot_be_is_refused(wire: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        Host().feed(wire)


def test_a_transfer_is_bounded() -> None:
    with pytest.raises(ValueError, match="takes 4194268 at most"):
        encode_transfer_head(0, MOST_BYTES + 1, MasterEpoch(1, 0), 0)


def test_a_welcome_names_the_newest_thousand_epochs() -> None:
    many = EpochList(MasterEpoch(number, number * 10) for number in range(1200))
    heard = Host().feed(encode_welcome(Welcome(99999, 1199, many)))
    assert heard == [Welcome(99999, 1199, EpochList(many.entries[-1000:]))]
