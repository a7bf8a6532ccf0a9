"""Signed gRPC calls through the kernel's guard and through the RPCs: the same pass, and the same are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.broker.quotas import held
from pyromq.broker.quotas.limits import parse
from pyromq.kernel import choice
from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.v2 import Code
from tests.broker.virtual import Virtual
from tests.kernel.call_signatures import FORM, NOW, NOW_MS, date_of, digest_of, guarded, signed_call
from tests.kernel.grpc_client import Client
from tests.kernel.grpc_served import Served
from tests.kernel.guard_frames import BOSS, GONE, SHOP, allow, users
from tests.kernel.test_grpc_broker import message
from tests.kernel.test_guard import CHANGES
from tests.kernel.twins import contents
from tests.support import require

OK, DENIED = Code.OK, Code.UNAUTHORIZED

Headers = dict[str, str]
Step = tuple[str, Headers] | float | Callable[[Virtual], object]  # a send to a topic, seconds, a change


@pytest.fixture(autouse=True)
def native() -> None:
    require(
        choice.native_http2() is not None, "HTTP/2 is not built natively here: make native (it needs libnghttp2-dev)"
    )


class Lived(NamedTuple):
    """What can be told from outside, and what the kernel did of it."""

    answers: list[bytes]
    files: dict[str, bytes]
    by_kernel: int

    @property
    def codes(self) -> list[int]:
        return [int(v2.SendMessageResponse.FromString(one).status.code) for one in self.answers]


async def lived(folder: Path, steps: list[Step], by_kernel: bool, **settings: Any) -> Lived:
    async with guarded(folder, by_kernel, **settings) as here:
        client, answers = Client(here.life), []
        for number, step in enumerate(steps):
            if isinstance(step, tuple):
                topic, headers = step
                request = v2.SendMessageRequest(messages=[message(topic, number)])
                answers += await client.ask("SendMessage", request, **headers)
            elif isinstance(step, float):
                await here.life.clock.advance(step)
            else:
                step(here.life)
        await here.life.broker.store.flush_all()
        return Lived(answers, contents(here.life.disk), here.sent())


async def same(folder: Path, *steps: Step, **settings: Any) -> Lived:
    """Both answer and store the same; what the one with the kernel did."""
    ours = await lived(folder / "kernel", [*steps], True, **settings)
    theirs = await lived(folder / "rpc", [*steps], False, **settings)
    assert ours[:2] == theirs[:2]
    assert theirs.by_kernel == 0
    return ours


# --- who may, and who may not -------------------------------------------------------------------------------------


async def test_signed_sends_are_the_kernels(tmp_path: Path) -> None:
    shop, boss = signed_call(), signed_call(BOSS)
    seen = await same(tmp_path, ("A", shop), ("A", boss), ("B", boss), ("A", shop), ("Typed", boss))
    assert seen.codes == [OK] * 5
    assert seen.by_kernel == 5


PASSES = {
    "small digits": {"authorization": FORM.format(SHOP, digest_of(NOW).lower())},
    "mixed digits": {"authorization": FORM.format(SHOP, digest_of(NOW).capitalize())},
    "another scheme": {"authorization": FORM.format(SHOP, digest_of(NOW)).replace("MQv2-HMAC-SHA1", "Basic")},
    "no region": {"authorization": f"MQv2-HMAC-SHA1 Credential={SHOP}, Signature={digest_of(NOW)}"},
    "no blanks": {"authorization": f"x Signature={digest_of(NOW)},Credential={SHOP}/"},
    "many blanks": {"authorization": f"x   Signature={digest_of(NOW)}  ,   Credential={SHOP}//  "},
    "the oldest date": signed_call(date=date_of(NOW_MS - 899_000)),
    "the youngest date": signed_call(date=date_of(NOW_MS + 900_000)),
}


@pytest.mark.parametrize("changed", PASSES.values(), ids=PASSES)
async def test_what_passes(tmp_path: Path, changed: Headers) -> None:
    seen = await same(tmp_path, ("A", signed_call() | changed))
    assert (seen.codes, seen.by_kernel) == ([OK], 1)


WRONG: dict[str, tuple[str, Headers]] = {
    "nobody": ("A", {}),
    "no signature": ("A", {"x_mq_date_time": NOW}),
    "no date": ("A", {"authorization": signed_call()["authorization"]}),
    "another date": ("A", signed_call() | {"x_mq_date_time": date_of(NOW_MS + 1000)}),
    "another secret": ("A", signed_call(secret="guessed")),
    "an empty secret": ("A", signed_call(secret="")),
    "a stranger": ("A", signed_call("stranger")),
    "an empty name": ("A", signed_call("")),
    "a name with a blank": ("A", signed_call(SHOP + " ")),
    "another's name": ("A", {**signed_call(secret="x"), "authorization": FORM.format(BOSS, digest_of(NOW, "x"))}),
    "a disabled user": ("A", signed_call(GONE)),
    "another topic": ("B", signed_call()),
    "a topic that is not there": ("New", signed_call()),
    "a dead letter topic": ("%DLQ%X", signed_call()),
    "too old": ("A", signed_call(date=date_of(NOW_MS - 1_000_000))),
    "too young": ("A", signed_call(date=date_of(NOW_MS + 902_000))),
    "no date at all": ("A", signed_call(date="yesterday")),
    "a day that there is not": ("A", signed_call(date="20231131T000000Z")),
    "an empty header": ("A", signed_call(form="")),
    "a word": ("A", signed_call(form="MQv2-HMAC-SHA1")),
    "no pairs": ("A", signed_call(form="MQv2-HMAC-SHA1 Credential, Signature")),
    "short digits": ("A", signed_call(form=f"x Credential={SHOP}/, Signature=AB")),
    "no digits": ("A", signed_call(form=f"x Credential={SHOP}/, Signature=" + "g" * 40)),
    "no name": ("A", signed_call(form="x Signature={1}")),
    "two signatures": ("A", signed_call(form="x Credential={0}/, Signature={1}, Signature=" + "0" * 40)),
    "two names": ("A", signed_call(form="x Credential={0}/, Credential=boss/, Signature=" + "0" * 40)),
}


@pytest.mark.parametrize(("topic", "headers"), WRONG.values(), ids=WRONG)
async def test_what_may_not_pass_is_refused(tmp_path: Path, topic: str, headers: Headers) -> None:
    seen = await same(tmp_path, ("A", signed_call()), (topic, headers), ("A", signed_call()))
    assert seen.codes == [OK, DENIED, OK]
    assert seen.by_kernel == 2


async def test_headers_that_come_twice_are_the_rpcs(tmp_path: Path) -> None:
    """Their texts are joined by a comma, and that is what has to be signed."""
    once: Headers = signed_call(date="x")
    twice: Headers = signed_call(date="x,x") | {"x_mq_date_time": "x"}
    steps: list[Step] = [("A", one | {"x-mq-date-time": "x"}) for one in (once, twice)]
    seen = await same(tmp_path, *steps, call_signature_seconds=0)
    assert (seen.codes, seen.by_kernel) == ([DENIED, OK], 0)


@pytest.mark.parametrize("wrong", [{}, signed_call(secret="guessed"), signed_call("stranger")])
async def test_the_kernel_serves_no_strangers(tmp_path: Path, wrong: Headers) -> None:
    """The first call that shows who makes it is the RPC's; those behind it are the kernel's."""
    call: Step = ("B", signed_call(BOSS))  # whose one queue both ways have their turn on
    seen = await same(tmp_path, ("B", wrong), call, call, ("B", wrong), call, strangers=True)
    assert (seen.codes, seen.by_kernel) == ([DENIED, OK, OK, DENIED, OK], 2)


# --- settings -----------------------------------------------------------------------------------------------------


async def test_who_is_not_judged_may_everything(tmp_path: Path) -> None:
    steps: list[Step] = [("B", signed_call()), ("B", signed_call(secret="guessed")), ("B", {})]
    seen = await same(tmp_path, *steps, authorization_enabled=False)
    assert (seen.codes, seen.by_kernel) == ([OK, DENIED, DENIED], 1)


async def test_who_has_no_policies_may_nothing(tmp_path: Path) -> None:
    def remove(life: Virtual) -> None:
        users(life).remove(SHOP)

    seen = await same(tmp_path, remove, ("A", signed_call()), ("A", signed_call(BOSS)))
    assert (seen.codes, seen.by_kernel) == ([DENIED, OK], 1)


async def test_calls_that_need_not_be_signed(tmp_path: Path) -> None:
    name = "apache.rocketmq.v2.SendMessageRequest"
    white = {"authentication_whitelist": name, "authorization_whitelist": name}
    steps: list[Step] = [("A", {}), ("B", signed_call()), ("A", signed_call(secret="guessed"))]
    seen = await same(tmp_path, *steps, **white)
    assert (seen.codes, seen.by_kernel) == ([OK, OK, DENIED], 1)


@pytest.mark.parametrize("date", ["19700101T000000Z", "yesterday", "a date of 1 January", "x"])
async def test_dates_that_are_not_looked_at(tmp_path: Path, date: str) -> None:
    seen = await same(tmp_path, ("A", signed_call(date=date)), ("A", signed_call("x")), call_signature_seconds=0)
    assert (seen.codes, seen.by_kernel) == ([OK, DENIED], 1)


async def test_a_date_gets_too_old(tmp_path: Path) -> None:
    call: Step = ("A", signed_call())
    seen = await same(tmp_path, call, 59.0, call, 2.0, call, call_signature_seconds=60)
    assert (seen.codes, seen.by_kernel) == ([OK, OK, DENIED], 2)


@pytest.mark.parametrize(("source", "code"), [("127.0.0.1", OK), ("10.0.0.0/8", DENIED)])
async def test_verdicts_are_for_an_address(tmp_path: Path, source: str, code: int) -> None:
    def change(life: Virtual) -> None:
        users(life).remove(SHOP)
        allow(users(life), SHOP, "Topic:A Pub", sources=[source])

    seen = await same(tmp_path, ("A", signed_call()), change, ("A", signed_call()))
    assert (seen.codes, seen.by_kernel) == ([OK, code], 1 + (code == OK))


# --- what changes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_counts_for_the_next_call(tmp_path: Path, name: str) -> None:
    call: Step = ("A", signed_call())
    seen = await same(tmp_path, call, call, lambda life: CHANGES[name](users(life)), call, ("A", signed_call(BOSS)))
    assert (seen.codes, seen.by_kernel) == ([OK, OK, DENIED, OK], 3)


async def test_two_secrets_are_valid_while_one_is_changed(tmp_path: Path) -> None:
    old: Step = ("A", signed_call())
    new: Step = ("A", signed_call(secret="new"))
    seen = await same(
        tmp_path,
        old,
        lambda life: users(life).update(SHOP, "new", None, None, keep_old=True),
        old,
        new,
        ("A", signed_call(secret="newer")),
        lambda life: users(life).drop_old_secret(SHOP),
        old,
        new,
    )
    assert (seen.codes, seen.by_kernel) == ([OK, OK, OK, DENIED, DENIED, OK], 4)


async def test_verdicts_are_asked_for_once(tmp_path: Path) -> None:
    async with guarded(tmp_path) as here:
        clients = [Client(here.life), Client(here.life, "client-2")]
        for number in range(6):
            for client in clients:
                request = v2.SendMessageRequest(messages=[message("A", number)])
                await client.ask("SendMessage", request, **signed_call())
        assert here.sent() == 12
        assert guard_of(here).asked == 1
        await clients[0].ask("SendMessage", v2.SendMessageRequest(messages=[message("A", 9)]), **signed_call(BOSS))
        assert guard_of(here).asked == 2


def guard_of(here: Served) -> Any:
    return here.sends[0].guard


# --- quotas -------------------------------------------------------------------------------------------------------


async def test_quotas_of_users_are_counted_by_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever connection a call comes by: where users have quotas, the RPC serves what these are about."""
    monkeypatch.setattr(held, "HELD_S", 0.0)  # clocks stand here

    def limit(life: Virtual) -> None:
        life.broker.base.quotas.put(parse(f"user:{BOSS} sendMessages=2"))

    def free(life: Virtual) -> None:
        life.broker.base.quotas.delete(parse(f"user:{BOSS} sendMessages=2").owner)

    boss: Step = ("B", signed_call(BOSS))
    seen = await same(tmp_path, boss, limit, boss, boss, boss, ("A", signed_call()), free, boss)
    assert seen.codes == [OK, OK, OK, Code.TOO_MANY_REQUESTS, OK, OK]
    assert seen.by_kernel == 2
