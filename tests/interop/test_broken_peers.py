"""Peers that break every rule, while another client's route queries go on being answered. Needs no foreign program."""

from __future__ import annotations

import contextlib
import random
import resource
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import require

from . import wire
from .peers import ours
from .waiting import eventually

MIB = 1 << 20
TOPICS = [f"Topic_{number:05d}_with_a_name_of_usual_length" for number in range(5_000)]
ENOUGH_ANSWERS = 25  # that the good client must get while a broken one is at work


class GoodClient:
    """Asks for a route again and again in a thread of its own, each time over the same connection."""

    def __init__(self, address: str) -> None:
        self._client = wire.Client(address)
        self._changed = threading.Condition()
        self._answered = 0
        self._failure: BaseException | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_still_served(self, count: int = ENOUGH_ANSWERS) -> None:
        """Returns once `count` more routes have been answered from now on; fails if one was wrong or none comes."""
        with self._changed:
            goal = self._answered + count
            arrived = self._changed.wait_for(lambda: self._answered >= goal or self._failure, timeout=60)
            if self._failure:
                raise AssertionError(f"the good client was disturbed: {self._failure!r}") from self._failure
            assert arrived, "the good client got no answers for 60 s"

    def stop(self) -> None:
        self._stopping = True
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        try:
            while not self._stopping:
                answer = self._client.call(wire.GET_ROUTE, {"topic": TOPICS[0]})
                assert answer.code == 0, answer
                assert b'"brokerName":"broker-x"' in answer.body, answer
                with self._changed:
                    self._answered += 1
                    self._changed.notify_all()
        except BaseException as failure:
            with self._changed:
                self._failure = failure
                self._changed.notify_all()


class Subject:
    """The name server under attack, with a broker of many topics."""

    def __init__(self, home: Path, *, loop: str = "", descriptors: int | None = None) -> None:
        server = ours.NameServer(home, descriptors=descriptors, env={"PYROMQ_LOOP": loop})
        self.address, self.program = server.address, server.program
        self.broker = wire.Client(self.address)
        assert wire.register_broker(self.broker, "broker-x", TOPICS).code == 0
        self.good = GoodClient(self.address)
        self.good.is_still_served()
        self.resident_before = self.program.resident_bytes()

    def stop(self) -> None:
        """Whatever was done to it: it answers, its memory is bounded, and it ends cleanly when asked to."""
        self.good.is_still_served()
        assert self.program.resident_bytes() - self.resident_before < 256 * MIB
        self.good.stop()
        self.broker.close()
        self.program.process.terminate()
        assert self.program.wait() == 0, self.program.tail()

    @contextlib.contextmanager
    def memory_stays_within(self, growth: int) -> Iterator[None]:
        """The most that the server holds during the block, against what it held before."""
        before = self.program.resident_bytes()
        self.program.forget_peak()
        yield
        self.good.is_still_served()
        grown = self.program.peak_bytes() - before
        assert grown <= growth, f"grew by {grown >> 20} MiB, allowed are {growth >> 20}"


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    require(request.param == "asyncio" or find_spec("uvloop") is not None, "uvloop is not installed")
    subject = Subject(tmp_path_factory.mktemp("broken"), loop=request.param)
    yield subject
    subject.stop()


@contextlib.contextmanager
def many_descriptors(count: int) -> Iterator[None]:
    """Raise this process's limit for the block. The server raises its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    require(
        hard == resource.RLIM_INFINITY or hard >= count, f"needs {count} file descriptors, the hard limit is {hard}"
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def closed_by_server(peer: socket.socket) -> bool:
    """True once the server has closed; whatever it said before is read away."""
    try:
        while peer.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def send_as_far_as_taken(peer: socket.socket, data: bytes) -> int:
    """Send until the server closes or takes no more for a second; returns how many bytes went out."""
    peer.setblocking(False)
    sent = 0
    while sent < len(data):
        if not select.select([], [peer], [], 1.0)[1]:
            break
        try:
            sent += peer.send(data[sent : sent + 65536])
        except BlockingIOError:
            continue
        except ConnectionError:
            break
    peer.settimeout(30)
    return sent


GARBAGE: dict[str, bytes] = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "tls hello of the wrong kind": b"\x16\x03\x01\x00\x05hello",
    "header length beyond the frame": struct.pack(">iI", 100, 5000) + bytes(96),
    "negative length": struct.pack(">iI", -1, 10) + bytes(64),
    "unknown serialize type": struct.pack(">iI", 20, (7 << 24) | 16) + bytes(16),
    "header is no json": struct.pack(">iI", 14, 10) + b"0123456789",
    "header is a json list": struct.pack(">iI", 6, 2) + b"[]",
    "binary header cut off": struct.pack(">iI", 9, (1 << 24) | 5) + b"\x00\x69\x00\x00\x01",
    "deep nesting": struct.pack(">iI", 200_004, 200_000) + b"[" * 200_000,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_closes_its_own_connection_only(subject: Subject, garbage: bytes) -> None:
    with wire.connect(subject.address) as peer:
        send_as_far_as_taken(peer, garbage)
        with contextlib.suppress(OSError):  # the server may have been quicker
            peer.shutdown(socket.SHUT_WR)
        assert closed_by_server(peer)
    subject.good.is_still_served()


def test_random_bytes_from_many_connections(subject: Subject) -> None:
    chance = random.Random(20_261_115)
    with subject.memory_stays_within(32 * MIB):
        for _ in range(300):
            with wire.connect(subject.address) as peer:
                send_as_far_as_taken(peer, chance.randbytes(chance.randrange(1, 5_000)))
        subject.good.is_still_served()


def test_half_frames_wait_without_disturbing_and_may_be_completed(subject: Subject) -> None:
    frame = wire.request_frame(wire.GET_ROUTE, {"topic": TOPICS[1]})
    with contextlib.ExitStack() as stack, subject.memory_stays_within(32 * MIB):
        peers = [stack.enter_context(wire.connect(subject.address)) for _ in range(len(frame) - 1)]
        for cut, peer in enumerate(peers, 1):
            peer.sendall(frame[:cut])
        subject.good.is_still_served()
        for cut, peer in enumerate(peers, 1):
            peer.sendall(frame[cut:])
            assert wire.read_answer(peer.makefile("rb")).code == 0


def test_a_frame_sent_byte_by_byte_is_answered(subject: Subject) -> None:
    with wire.connect(subject.address) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in wire.request_frame(wire.GET_ROUTE, {"topic": TOPICS[2]}):
            peer.sendall(bytes([byte]))
        assert wire.read_answer(peer.makefile("rb")).code == 0


@pytest.mark.parametrize("length", [0x7FFFFFFF, 16 * MIB + 1], ids=["2 GB", "one byte above 16 MiB"])
def test_a_length_above_the_limit_costs_no_memory(subject: Subject, length: int) -> None:
    with subject.memory_stays_within(16 * MIB), wire.connect(subject.address) as peer:
        sent = send_as_far_as_taken(peer, struct.pack(">iI", length, 100) + bytes(64 * MIB))
        assert closed_by_server(peer)
        assert sent < 32 * MIB, "the server went on reading a frame that it must refuse by its length"


def test_one_peer_announcing_large_frames_that_never_end(subject: Subject) -> None:
    """Within the limit, so the server waits; many of them must not cost what they announce."""
    with contextlib.ExitStack() as stack, subject.memory_stays_within(64 * MIB):
        for _ in range(200):  # 3 GB announced
            peer = stack.enter_context(wire.connect(subject.address))
            peer.sendall(struct.pack(">iI", 16 * MIB, 100) + b"{")
        subject.good.is_still_served()


def test_peers_that_never_read_large_answers(subject: Subject) -> None:
    """A hundred bytes ask for an answer of 250 KB: without back-pressure these requests would be worth 50 GB."""
    requests = b"".join(wire.request_frame(wire.GET_ALL_TOPICS) for _ in range(50_000))
    with contextlib.ExitStack() as stack, subject.memory_stays_within(96 * MIB):
        for _ in range(4):
            peer = stack.enter_context(wire.connect(subject.address))
            assert send_as_far_as_taken(peer, requests) < len(requests), "the server reads on though nobody reads it"
        subject.good.is_still_served(500)


def test_ten_thousand_connections(subject: Subject) -> None:
    count = 10_000
    question = wire.request_frame(wire.GET_ROUTE, {"topic": TOPICS[3]})
    with many_descriptors(count + 500), contextlib.ExitStack() as stack:
        before = subject.program.resident_bytes()
        peers = []
        for number in range(count):
            # Several source addresses, so that the ports of one do not run out.
            peer = stack.enter_context(wire.connect(subject.address, f"127.0.0.{2 + number % 8}"))
            peer.sendall(question)
            peers.append(peer)
            if number % 1_000 == 0:
                subject.good.is_still_served(1)
        for peer in peers:
            with peer.makefile("rb") as stream:
                assert wire.read_answer(stream).code == 0
        subject.good.is_still_served()
        per_connection = (subject.program.resident_bytes() - before) / count
        assert per_connection < 24 * 1024, f"{per_connection:.0f} bytes for each idle connection"
    subject.good.is_still_served()


def test_connections_that_come_and_go_leave_nothing_behind(subject: Subject) -> None:
    descriptors = Path(f"/proc/{subject.program.pid}/fd")

    def open_descriptors() -> int:
        return len(list(descriptors.iterdir()))

    before = open_descriptors()
    with subject.memory_stays_within(32 * MIB):
        for number in range(2_000):
            with wire.connect(subject.address, f"127.0.0.{2 + number % 8}") as peer:
                if number % 2:
                    # A reset instead of an orderly end.
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: open_descriptors() <= before, "descriptors of gone peers are closed")


def test_running_out_of_descriptors_refuses_newcomers_and_serves_the_others(tmp_path: Path) -> None:
    """400 descriptors: connections get what files and outgoing ones leave."""
    subject = Subject(tmp_path, descriptors=400)
    with contextlib.ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(wire.connect(subject.address))
        subject.good.is_still_served()
        subject.program.wait_for("(?i)connection.*limit")
    # The places are free again once the server has seen the others leave.
    eventually(lambda: answers_a_newcomer(subject.address), "a newcomer is served again")
    subject.stop()


def answers_a_newcomer(address: str) -> bool:
    try:
        return wire.ask(address, wire.GET_ROUTE, {"topic": TOPICS[4]}).code == 0
    except ConnectionError:
        return False


def flood_of_unknown_codes() -> bytes:
    return b"".join(wire.request_frame(code) for code in range(9_000, 9_500))


def flood_of_oneway_routes() -> bytes:
    return b"".join(wire.request_frame(wire.GET_ROUTE, {"topic": "t"}) for _ in range(500)).replace(
        b'"flag": 0', b'"flag": 2'
    )


@pytest.mark.parametrize("flood", [flood_of_unknown_codes, flood_of_oneway_routes])
def test_floods_of_well_formed_nonsense(subject: Subject, flood: Callable[[], bytes]) -> None:
    wave = flood()
    with subject.memory_stays_within(32 * MIB), wire.connect(subject.address) as peer:
        for _ in range(10):
            send_as_far_as_taken(peer, wave)
        subject.good.is_still_served()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a name server that gives its peers a second for everything."""
    keys = ("connectionOpeningSeconds", "frameSeconds", "blockedSeconds", "serverChannelMaxIdleTimeSeconds")
    server = ours.NameServer(tmp_path_factory.mktemp("impatient"), dict.fromkeys(keys, "1"))
    yield server.address
    server.kill()


def test_a_peer_that_says_nothing_is_closed(impatient: str) -> None:
    with wire.connect(impatient) as peer:
        assert closed_by_server(peer)


def test_a_peer_that_stops_in_the_middle_of_a_frame_is_closed(impatient: str) -> None:
    with wire.connect(impatient) as peer:
        peer.sendall(wire.request_frame(wire.GET_ALL_TOPICS))
        assert wire.read_answer(peer.makefile("rb")).code == 0
        peer.sendall(wire.request_frame(wire.GET_ALL_TOPICS)[:-1])
        assert closed_by_server(peer)


def test_a_peer_that_falls_silent_between_frames_is_closed(impatient: str) -> None:
    with wire.connect(impatient) as peer:
        peer.sendall(wire.request_frame(wire.GET_ALL_TOPICS))
        assert wire.read_answer(peer.makefile("rb")).code == 0
        assert closed_by_server(peer)
