"""Actions by REST: plan, apply, what is refused, what has moved since; plans and results are their owner's alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from pyromq.audit.verify import entries, verify
from pyromq.dashboard.acting.kept_plans import KEPT_S, MOST_OF_ONE, KeptPlans
from pyromq.dashboard.acting.plan import ActionPlan, sentence
from pyromq.dashboard.acting.visitor import Visitor
from pyromq.dashboard.acting.works import INTERRUPTED, Work, Works
from tests.client.world import World
from tests.dashboard.running import CLUSTER, PROGRAM, Dashboard, running_dashboard
from tests.dashboard.test_api import check, fill
from tests.dashboard.test_guard import OWN, log_in


async def _topics(world: World) -> set[str]:
    async with world.client() as client:
        from pyromq import admin

        return set(await admin.topics.names(admin.calls.Calls(client.session)))


async def test_a_topic_is_made_changed_and_deleted_by_what_the_document_says(
    world: World, dashboard: Dashboard, tmp_path: Path
) -> None:
    async with dashboard.program() as program:
        document = (await program.get("/api/v1/openapi.json")).json()
    known = document["components"]["schemas"]

    async def told(path: str, wanted: dict[str, Any]) -> Any:
        """Post a body that fits its schema; check that the answer does."""
        (described,) = [
            each["post"]
            for pattern, each in document["paths"].items()
            if pattern.replace("{cluster}", CLUSTER).replace("{name}", "sent") == f"/api/v1/{CLUSTER}{path}"
        ]
        check(wanted, described["requestBody"]["content"]["application/json"]["schema"], known, path)
        answer = await dashboard.post(path, wanted)
        assert answer.status_code == 200, answer.text
        check(answer.json(), described["responses"]["200"]["content"]["application/json"]["schema"], known, path)
        return answer.json()

    plan = await told("/create/topic:plan", {"name": "sent", "queues": 4})
    assert plan["rows"] == [{"broker": "broker-a", "queues": 4, "perm": "rw", "kind": "UNSPECIFIED"}]
    assert "sent" not in await _topics(world)  # a plan changes nothing
    done = await told("/create/topic:apply", {"plan": plan["plan"]})
    assert (done["state"], done["outcomes"]) == ("done", [{"place": "broker-a", "is_done": True}])
    assert "sent" in await _topics(world)
    plan = await told("/topics/sent/change:plan", {"queues": 6, "perm": "r"})
    assert [(row["what"], row["now"], row["then"]) for row in plan["rows"]] == [
        ("Queues to write", 4, 6),
        ("Queues to read", 4, 6),
        ("Permission", "rw", "r"),
    ]
    await told("/topics/sent/change:apply", {"plan": plan["plan"]})
    found = await dashboard.until("/topics", lambda found: found["rows"] and found["rows"][0]["queues"] == 6)
    assert found["rows"][0]["perm"] == "r"
    plan = await told("/topics/sent/delete:plan", {})
    assert plan["confirm"] == "sent"
    done = await told("/topics/sent/delete:apply", {"plan": plan["plan"], "confirm": "sent"})
    assert [one["place"] for one in done["outcomes"]] == ["broker-a", "name servers"]
    assert "sent" not in await _topics(world)
    assert verify(tmp_path / "dashboard" / "audit").alarms == []
    writes = [one for one in entries(tmp_path / "dashboard" / "audit") if one["kind"] == "write"]
    assert [one["action"] for one in writes] == ["create-topic", "change-topic", "delete-topic"]
    assert {(one["user"], one["source"], one["cluster"], one["outcome"]) for one in writes} == {
        ("program", "127.0.0.1", CLUSTER, "done")
    }
    assert writes[1]["before"]["queues to write on broker-a"] == 4
    assert writes[1]["after"]["queues to write on broker-a"] == 6
    assert PROGRAM not in str(writes)


async def test_a_plan_says_what_deleting_a_topic_would_hit(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    plan = await dashboard.plan("/topics/orders/delete")
    assert plan["does"] == "Delete the topic orders with 40 messages"
    assert {"what": "Group", "name": "billing", "members": 0, "lag": 39} in plan["rows"]
    assert plan["warnings"] == ["The group billing consumes orders: 0 members are online, and 39 messages wait for it."]


async def _consume(message: Any) -> None:
    pass


async def test_what_a_plan_rests_on_must_not_move(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    plan = await dashboard.plan("/groups/billing/delete")
    async with world.client() as client, client.push_consumer("orders", _consume, group="billing"):
        await dashboard.until("/groups", lambda found: found["rows"][0]["members"]["value"] == 1)
        answer = await dashboard.post("/groups/billing/delete:apply", {"plan": plan["plan"], "confirm": "billing"})
        assert answer.status_code == 409
        assert answer.json()["moved"] == ["members online: 0 → 1"]
        assert "the group comes back" in answer.json()["now"]["warnings"][0]
    assert (await dashboard.figures("/groups/billing"))["group"]["name"] == "billing"
    plan = await dashboard.plan("/groups/billing/delete")
    assert (await dashboard.apply("/groups/billing/delete", plan))["state"] == "done"
    await dashboard.until("/groups", lambda found: found["rows"] == [])


async def test_what_cannot_be_done_says_why_and_changes_nothing(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    wrong: list[tuple[str, dict[str, Any], int, str]] = [
        ("/create/topic:plan", {"name": "a b"}, 422, "'a b'"),
        ("/create/topic:plan", {"name": "orders"}, 422, "is there already, on broker-a"),
        ("/create/topic:plan", {"name": "new", "queues": "many"}, 400, "Expected `int`"),
        ("/create/topic:plan", {"name": "new", "queues": 0}, 400, ">= 1"),
        ("/create/topic:plan", {"name": "new", "quues": 4}, 400, "unknown field `quues`"),
        ("/create/topic:plan", {"name": "new", "broker": "broker-b"}, 404, "no broker 'broker-b'"),
        ("/topics/orders/change:plan", {"queues": 4}, 422, "Nothing to change"),
        ("/topics/TBW102/delete:plan", {}, 422, "the system's own"),
        ("/topics/nothing/delete:plan", {}, 404, "no topic 'nothing'"),
        ("/groups/nobody/delete:plan", {}, 404, "no group 'nobody'"),
        ("/groups/billing/delete:apply", {"plan": "guessed"}, 422, "applied already"),
    ]
    for path, body, status, words in wrong:
        answer = await dashboard.post(path, body)
        assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
    async with dashboard.program() as program:
        form = await program.post(f"/api/v1/{CLUSTER}/create/topic:plan", data={"name": "new"})
        assert form.status_code == 415
        huge = await program.post(f"/api/v1/{CLUSTER}/create/topic:plan", json={"name": "n" * (1 << 17)})
        assert huge.status_code == 403
    assert "new" not in await _topics(world)


async def test_what_cannot_be_undone_wants_its_name(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    plan = await dashboard.plan("/topics/orders/delete")
    answer = await dashboard.post("/topics/orders/delete:apply", {"plan": plan["plan"]})
    assert (answer.status_code, "confirm='orders'" in answer.json()["detail"]) == (400, True)
    again = await dashboard.post("/topics/orders/delete:apply", {"plan": plan["plan"], "confirm": "orders"})
    assert again.status_code == 422  # each plan is good for one try: the refusal has the new one
    done = await dashboard.apply("/topics/orders/delete", answer.json()["now"])
    assert done["state"] == "done"


async def test_a_plan_is_its_owners_alone(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    plan = await dashboard.plan("/topics/orders/delete")
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, dashboard)
        body = {"plan": plan["plan"], "confirm": "orders"}
        theirs = await client.post(f"/api/v1/{CLUSTER}/topics/orders/delete:apply", json=body, headers=OWN)
        assert theirs.status_code == 422
        stranger = await client.post(f"/api/v1/{CLUSTER}/topics/orders/delete:apply", json=body)
        assert stranger.status_code == 403  # from another page
    other = await dashboard.post("/topics/mail/delete:apply", body)
    assert other.status_code == 422  # of another topic
    done = await dashboard.apply("/topics/orders/delete", plan)
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, dashboard)
        assert (await client.get(f"/api/v1/{CLUSTER}/results/{done['id']}")).status_code == 404


async def test_a_broker_that_is_away_stops_a_plan(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    await dashboard.until("/topics", lambda found: found["rows"])
    address = world.brokers["broker-a"].address
    await world.stop_broker()
    answer = await dashboard.post("/topics/orders/delete:plan", {})
    assert answer.status_code in (404, 502)  # the name server may have heard of it already
    if answer.status_code == 502 and "broker" in answer.json():
        assert answer.json()["broker"] == address


async def test_a_dashboard_for_readers_changes_nothing(world: World, tmp_path: Path) -> None:
    await fill(world)
    from pyromq.dashboard.web.site import SiteLimits

    async with running_dashboard(world, tmp_path, limits=SiteLimits(read_only=True)) as dashboard:
        answer = await dashboard.post("/topics/orders/delete:plan", {})
        assert (answer.status_code, "--read-only" in answer.json()["detail"]) == (403, True)
        async with httpx.AsyncClient(base_url=dashboard.address) as client:
            await log_in(client, dashboard)
            page = await client.get(f"/c/{CLUSTER}/topics")
            assert (page.status_code, "/create/topic" in page.text) == (200, False)
            assert (await client.get(f"/c/{CLUSTER}/create/topic")).status_code == 403
            token = page.text.partition('name="form_token" value="')[2].partition('"')[0]
            form = {"form_token": token, "name": "new"}
            assert (await client.post(f"/c/{CLUSTER}/create/topic", data=form, headers=OWN)).status_code == 403
        assert await dashboard.figures("/topics/orders")
    assert "new" not in await _topics(world)


# --- plans and works without a browser --------------------------------------------------------------------------------


def test_plans_are_bounded_and_expire() -> None:
    now, words = [0.0], iter(range(10_000))
    plans = KeptPlans(lambda: f"{next(words):032}", lambda: now[0])
    plan = ActionPlan(does=sentence("Do it"), rows=[])
    kept = [plans.keep("one", "act", "local", (), None, plan) for _ in range(MOST_OF_ONE + 1)]
    assert plans.find("one", kept[0].id, "act", "local") is None
    assert plans.find("one", kept[1].id, "act", "local") is kept[1]
    assert plans.find("two", kept[1].id, "act", "local") is None
    assert plans.find("one", kept[1].id, "another", "local") is None
    now[0] = KEPT_S
    assert plans.find("one", kept[-1].id, "act", "local") is None


class _Lines(list[dict[str, Any]]):
    def note(self, kind: str, **fields: Any) -> None:
        self.append({"kind": kind} | fields)

    async def written(self) -> None: ...


async def test_what_is_under_way_at_the_end_is_said_to_be_interrupted() -> None:
    lines, begun = _Lines(), asyncio.Event()
    works = Works(lambda: "word", lambda: 0, lines)
    visitor = Visitor(user="alice", came_by="user", address="::1", owner="o")
    work = Work("id", "o", "local", "act", "", sentence("Do {n} things", n=3), 0)

    async def endless(work: Work) -> None:
        work.expect(3)
        work.advance()
        begun.set()
        await asyncio.Event().wait()

    works.begin(visitor, work, endless, {"of": {"name": "orders"}})
    await begun.wait()
    assert works.find("o", "id", "local") is work
    assert works.find("o", "id", "elsewhere") is None
    await works.close()
    assert (work.state, work.done) == (INTERRUPTED, 1)
    (line,) = lines
    assert (line["user"], line["does"], line["of"], line["outcome"]) == (
        "alice",
        "Do 3 things",
        {"name": "orders"},
        INTERRUPTED,
    )
