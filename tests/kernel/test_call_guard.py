"""The guard of calls at the native session, with the gate itself as the judge: texts of anybody, dates, many verdicts.

Also in `make sanitize`. A failure names its seed.
"""

from __future__ import annotations

import os
import random
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from pyromq.access.directory import Directory
from pyromq.access.gate import AccessGate
from pyromq.access.settings import AccessSettings
from pyromq.access.users import User
from pyromq.broker.quotas.quotas import TABLE, Quotas
from pyromq.broker.wiring.grpc_guarding import CallVerdicts
from pyromq.errors import RequestRefused
from pyromq.kernel import choice
from pyromq.kernel.grpc_beats import BeatRules
from pyromq.kernel.grpc_sends import HotPeer
from pyromq.kernel.http2 import CallBegun, HalfClosed, Http2Limits, MessageArrived
from pyromq.protocol.grpc import v2
from pyromq.store.tables.json_tables import JsonTable
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.kernel.call_signatures import NOW, NOW_MS, date_of, digest_of, signed_call
from tests.kernel.guard_frames import SECRET, SHOP, allow
from tests.kernel.http2_peer import Peer
from tests.kernel.test_hot_beats import BEAT, OK
from tests.kernel.test_hot_sends import RULES, Broker
from tests.support import require

TEXTS = int(os.environ.get("PYROMQ_FUZZ_FRAMES", "6000")) // 3
REMOTE = "10.0.0.7:5"
OTHER = "shop2"
EVER = 1 << 40  # seconds
G = v2.HeartbeatRequest(group=v2.Resource(name="g"), client_type=v2.ClientType.PUSH_CONSUMER).SerializeToString()


def no_quotas(clock: ManualClock) -> Quotas:
    return Quotas(clock, JsonTable(SimulatedDisk(now_ms=clock.now_ms), TABLE), lambda: None, [])


class Wire:
    """A client, a session, and a gate behind its guard. Heartbeats that pass are answered."""

    def __init__(self, **settings: Any) -> None:
        module = choice.native_http2()
        require(module is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)")
        assert module is not None
        self.directory, self.clock = Directory(), ManualClock(NOW_MS)
        on = {"authentication_enabled": True, "authorization_enabled": True} | settings
        self.gate = AccessGate(self.directory, AccessSettings(**on), cluster="c", clock=self.clock)
        for name in (SHOP, OTHER):
            self.directory.create(User(name, (SECRET,)))
            allow(self.directory, name, "Group:* Sub")
        broker = Broker()
        hot = module.HotSends(broker, broker.feed, RULES)
        hot.serve_beats(module.HotBeats(lambda *_: True, BeatRules(BEAT, OK)))
        self.guard = CallVerdicts(self.gate, no_quotas(self.clock), self.clock, module).kernel
        hot.admit_by(self.guard)
        self.session: Any = module.Http2Session(Http2Limits())
        self.session.serve_hot(hot, HotPeer(REMOTE, "grpc"), REMOTE)
        self.peer, self.stream = Peer(), -1
        self.session.receive(self.peer.said())

    def set_clock(self, now_ms: int) -> None:
        self.clock.step_wall((now_ms - self.clock.now_ms()) / 1000)
        assert self.clock.now_ms() == now_ms

    def passes(self, authorization: str, date: str, message: bytes = G) -> bool:
        """Whether a call is answered by the kernel; else all of it is told."""
        self.stream += 2
        more: dict[str, Any] = {"authorization": authorization, "x_mq_date_time": date}
        self.peer.call(self.stream, message, path=BEAT, x_mq_language="JAVA", **more)
        told = self.session.receive(self.peer.said())
        self.peer.hear(self.session.take_output())
        if told:
            assert [type(one) for one in told] == [CallBegun, MessageArrived, HalfClosed]
            self.session.reset(self.stream, 8)
            self.peer.hear(self.session.take_output())
        return not told

    def is_admitted(self, authorization: str, date: str) -> bool:
        """What the gate says of the same headers."""
        try:
            self.gate.caller_of(authorization, date, "10.0.0.7")
        except RequestRefused:
            return False
        return True


def mutated(rng: random.Random, text: str) -> str:
    """Some of what a header may be instead."""
    chars = list(text)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
        at = rng.randrange(len(chars) + 1)
        what = rng.randrange(5)
        if what == 0 and at < len(chars):
            chars[at] = rng.choice(" ,=/aF0~z")
        elif what == 1:
            chars.insert(at, rng.choice(" ,=/aF0"))
        elif what == 2 and at < len(chars):
            del chars[at]
        elif what == 3 and at < len(chars):
            chars[at] = chars[at].swapcase()
        else:
            end = rng.randrange(at, len(chars) + 1)
            chars[at:at] = chars[at:end]
    return "".join(chars).strip() or "x"


FORMS = (
    "MQv2-HMAC-SHA1 Credential={0}/region/Rocketmq, SignedHeaders=x-mq-date-time, Signature={1}",
    "x Signature={1},Credential={0}",
    "x a=b,Credential={0}/=/,c==,Signature={1}",
)


def test_no_text_passes_that_the_gate_refuses() -> None:
    wire, passed, refused = Wire(), 0, 0
    for seed in range(TEXTS):
        rng = random.Random(seed)
        name = rng.choice((SHOP, SHOP, OTHER, "nobody"))
        date = NOW if rng.random() < 0.8 else mutated(rng, NOW)
        text = mutated(rng, rng.choice(FORMS).format(name, digest_of(date)))
        date = date if rng.random() < 0.9 else mutated(rng, date)
        is_admitted, passes = wire.is_admitted(text, date), wire.passes(text, date)
        assert is_admitted or not passes, f"seed {seed}: {text!r} {date!r}"
        passed, refused = passed + passes, refused + (is_admitted and not passes)
    assert passed > TEXTS // 10
    assert refused < passed // 4  # of what the gate admits most passes


def test_any_digit_of_the_digest_counts() -> None:
    wire = Wire()
    digest = digest_of(NOW)
    for at, digit in enumerate(digest):
        for other in "0123456789abcdefABCDEF":
            text = FORMS[0].format(SHOP, digest[:at] + other + digest[at + 1 :])
            assert wire.passes(text, NOW) == (other.upper() == digit), (at, other)


@pytest.mark.parametrize(
    "date",
    [
        *("20240229T000000Z", "20230229T000000Z", "19000229T000000Z", "20000229T235959Z", "21000228T000000Z"),
        *("20230431T000000Z", "20230430T000000Z", "20230400T000000Z", "20230013T000000Z", "20231301T000000Z"),
        *("20230101T240000Z", "20230101T236000Z", "20230101T235960Z", "20230101T235961Z", "00010101T000000Z"),
        *("00000101T000000Z", "99991231T235959Z", "19691231T235959Z", "20230101t000000Z", "20230101T000000z"),
        *("2023010T0000000Z", "20230101T00000Z", "20230101T0000000Z", "2023+101T000000Z", "202301 1T000000Z"),
    ],
)
def test_dates_are_those_that_the_gate_takes(date: str) -> None:
    wire = Wire(call_signature_seconds=EVER)
    text = FORMS[0].format(SHOP, digest_of(date))
    is_usual = re.fullmatch("[0-9]{8}T[0-9]{6}Z", date) is not None  # the gate reads some others, too
    assert wire.passes(text, date) == (is_usual and wire.is_admitted(text, date))


def test_random_dates_and_clocks() -> None:
    """To the millisecond, on both sides of the limit."""
    wire, passed = Wire(call_signature_seconds=60), 0
    for seed in range(TEXTS):
        rng = random.Random(seed)
        wire.set_clock(NOW_MS + rng.randrange(-70_000, 70_000) if rng.random() < 0.5 else NOW_MS)
        date = date_of(NOW_MS + 1000 * rng.choice((0, 59, 60, 61, -59, -60, -61, rng.randrange(-80, 80))))
        text = FORMS[0].format(SHOP, digest_of(date))
        is_admitted = wire.is_admitted(text, date)
        assert wire.passes(text, date) == is_admitted, f"seed {seed}"
        passed += is_admitted
    assert TEXTS // 10 < passed < TEXTS


def test_days_of_four_centuries() -> None:
    wire = Wire(call_signature_seconds=60)
    for day in range(0, 146_097, 1461):
        for more in (0, 58, 59, 60, 365):
            moment = (day + more) * 86_400_000
            wire.set_clock(moment)
            date = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
            assert wire.passes(FORMS[0].format(SHOP, digest_of(date)), date), date


def test_more_verdicts_than_are_kept() -> None:
    wire = Wire()
    headers = signed_call()

    def beat(number: int) -> bool:
        request = v2.HeartbeatRequest(group=v2.Resource(name=f"g{number}"), client_type=v2.ClientType.PUSH_CONSUMER)
        return wire.passes(headers["authorization"], headers["x_mq_date_time"], request.SerializeToString())

    assert all(beat(number) for number in range(5000))
    assert wire.guard.asked == 5000
    assert beat(4999)
    assert wire.guard.asked == 5000
    assert beat(0)  # forgotten, and asked for again
    assert wire.guard.asked == 5001


def test_a_refused_verdict_is_asked_for_each_time() -> None:
    """Nothing is kept of what a user may not: the gate says it to each, and notes it."""
    wire = Wire()
    wire.directory.remove(SHOP)
    headers = signed_call()
    for number in range(1, 4):
        assert not wire.passes(headers["authorization"], headers["x_mq_date_time"])
        assert wire.guard.asked == number
    allow(wire.directory, SHOP, "Group:g Sub")
    assert wire.passes(headers["authorization"], headers["x_mq_date_time"])


def test_users_of_one_connection_take_turns() -> None:
    wire = Wire()
    for number in range(20):
        name = (SHOP, OTHER)[number % 2]
        assert wire.passes(FORMS[0].format(name, digest_of(NOW)), NOW)
    assert wire.guard.asked == 2
    wire.directory.delete(OTHER)
    assert not wire.passes(FORMS[0].format(OTHER, digest_of(NOW)), NOW)
    assert wire.passes(FORMS[0].format(SHOP, digest_of(NOW)), NOW)
    assert wire.guard.asked == 2


def test_secrets_of_any_length() -> None:
    for size in (1, 19, 20, 21, 63, 64, 65, 200):
        wire, secret = Wire(), "s" * size
        wire.directory.update(SHOP, secret, None, None)
        assert wire.passes(FORMS[0].format(SHOP, digest_of(NOW, secret)), NOW)
        assert not wire.passes(FORMS[0].format(SHOP, digest_of(NOW)), NOW)


def test_headers_as_before_count_as_before_and_no_others() -> None:
    """A call like the last one is not checked anew. Whatever differs is, and what was right may be so no longer."""
    wire = Wire(call_signature_seconds=60)
    text = FORMS[0].format(SHOP, digest_of(NOW))
    later = date_of(NOW_MS + 1000)
    for _ in range(3):
        assert wire.passes(text, NOW)
        assert not wire.passes(text, later)
        assert not wire.passes(FORMS[0].format(OTHER, digest_of(later)), NOW)
        assert not wire.passes(text[:-1] + ("0" if text[-1] != "0" else "1"), NOW)
        assert wire.passes(FORMS[0].format(OTHER, digest_of(NOW)), NOW)
    assert wire.passes(text, NOW)
    wire.set_clock(NOW_MS + 61_000)
    assert not wire.passes(text, NOW)
    wire.set_clock(NOW_MS)
    assert wire.passes(text, NOW)
    wire.guard.revoke(SHOP.encode())
    assert wire.passes(text, NOW)
    wire.directory.update(SHOP, "another secret", None, None)
    wire.guard.revoke(SHOP.encode())
    assert not wire.passes(text, NOW)


def test_what_moves_from_one_header_to_the_other_is_not_as_before() -> None:
    wire = Wire(call_signature_seconds=0)  # any date, in any form
    date = f"0{NOW}"
    text = f"x Credential={SHOP},Signature={digest_of(date)}"
    assert wire.passes(text, date)
    assert not wire.passes(text + date[0], date[1:])
    assert not wire.passes(text[:-1], text[-1] + date)
    assert wire.passes(text, date)
