"""Users of one server are those of all: told before a change is answered, made up by who was away, the newest wins."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyromq.access.forms import policies_of
from pyromq.access.settings import AccessSettings
from pyromq.access.sharing.announcing import UserSharing
from pyromq.access.users import User, UserStatus, UserType
from pyromq.ambient import SystemClock
from pyromq.errors import ConnectionLost, RequestRefused
from pyromq.protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo
from pyromq.protocol.bodies.own import SharedUser, UserChanges, UserChangesAnswer
from pyromq.protocol.requests import RequestCode
from tests.access.sharing_servers import Memory, server_with

INNER = '{"accessKey":"inner","secretKey":"short"}'


class World:
    """Servers by name, and who is away. What they say goes over the wire's form."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.away: set[str] = set()
        self.now_ms = 1_000_000

    def start(self, name: str, inner: str = INNER, rows: Memory | None = None) -> Server:
        self.servers[name] = server = Server(self, name, inner, rows or Memory())
        return server


class Server:
    def __init__(self, world: World, name: str, inner: str, rows: Memory) -> None:
        self.world, self.name, self.rows = world, name, rows
        settings = AccessSettings(authentication_enabled=True, inner_client_authentication_credentials=inner)
        self.table, self.exchange = server_with(settings, rows, lambda: world.now_ms, name)
        self.telling = UserSharing(
            self.exchange, self._ask, self._peers, lambda peers, most: peers[:most], SystemClock()
        )

    async def _peers(self) -> list[str]:
        return [name for name in self.world.servers if name != self.name]

    async def _ask(self, peer: str, told: UserChanges) -> UserChangesAnswer | None:
        if {peer, self.name} & self.world.away:
            raise ConnectionLost("away")
        row = RequestCode.SHARE_USERS
        body = row.takes.write_body(told)
        assert b"secret of" not in body
        answer = await self.world.servers[peer].exchange.answer("inner", row.takes.read_body(body))
        return row.gives.read_body(row.gives.write_body(answer))

    @property
    def known(self) -> dict[str, tuple[str, ...]]:
        users = self.table.directory.users.items()
        return {name: user.secrets for name, user in users if name != "inner"}


@pytest.fixture
async def three() -> tuple[World, Server, Server, Server]:
    world = World()
    found = [world.start(name) for name in ("a", "b", "c")]
    for each in found:
        await each.telling.round()
    return world, *found  # type: ignore[return-value]


async def test_a_change_is_everywhere_when_it_is_answered(three: tuple[World, Server, Server, Server]) -> None:
    _, a, b, c = three
    a.table.directory.create(User("shop", ("secret of shop",)))
    entry = PolicyEntryInfo(resource="Topic:T", actions=["Pub"], decision="Allow")
    a.table.directory.put("shop", policies_of(AclInfo(policies=[PolicyInfo(entries=[entry])])))
    await a.telling.announce("shop")
    assert a.known == b.known == c.known == {"shop": ("secret of shop",)}
    assert c.table.directory.policies == a.table.directory.policies
    c.table.directory.delete("shop")
    await c.telling.announce("shop")
    assert a.known == b.known == {}
    assert "shop" not in a.table.directory.policies


async def test_who_was_away_gets_what_he_missed_and_brings_what_he_has(
    three: tuple[World, Server, Server, Server],
) -> None:
    world, a, b, c = three
    for name in ("old", "gone"):
        a.table.directory.create(User(name, ("secret of " + name,)))
        await a.telling.announce(name)
    world.away = {"c"}
    a.table.directory.delete("gone")
    a.table.directory.update("old", "secret of new", None, None, keep_old=True)
    for name in ("gone", "old"):
        await a.telling.announce(name)
    c.table.directory.create(User("lonely", ("secret of lonely",)))
    c.table.directory.update("gone", None, None, UserStatus.DISABLED)  # which is one of two changes at once
    await c.telling.announce("lonely")
    assert "gone" in c.known
    world.away = set()
    again = world.start("c", rows=c.rows)  # after a restart
    await again.telling.round()
    assert a.known == again.known
    assert again.known["old"] == ("secret of new", "secret of old")
    assert again.known["lonely"] == ("secret of lonely",)
    await b.telling.round()
    assert b.known == a.known
    assert {s.exchange.digest for s in (a, b, again)} == {a.exchange.digest}


async def test_the_later_change_wins_whatever_clocks_say(three: tuple[World, Server, Server, Server]) -> None:
    world, a, b, _ = three
    world.now_ms = 9_000_000
    a.table.directory.create(User("shop", ("secret of a",)))
    await a.telling.announce("shop")
    world.now_ms = 10  # the clock of the next one is far behind
    b.table.directory.update("shop", "secret of b", None, None)
    await b.telling.announce("shop")
    assert a.known == b.known == {"shop": ("secret of b",)}


async def test_users_of_settings_are_each_servers_own_until_somebody_changes_them() -> None:
    world = World()
    settings = AccessSettings(init_authentication_user='{"username":"root","password":"secret of a"}')
    other = AccessSettings(init_authentication_user='{"username":"root","password":"secret of b"}')
    a, b = world.start("a"), world.start("b")
    a.table.begin(settings)
    b.table.begin(other)
    await a.telling.round()
    assert (a.known["root"], b.known["root"]) == (("secret of a",), ("secret of b",))
    b.table.directory.update("root", "secret of both", None, None)
    await a.telling.round()
    assert a.known == b.known == {"root": ("secret of both",)}


async def test_only_servers_with_the_same_credentials_are_heard() -> None:
    world = World()
    a = world.start("a")
    with pytest.raises(RequestRefused, match="only servers tell each other"):
        await a.exchange.answer("admin", UserChanges(digest=""))
    stranger = world.start("s", '{"accessKey":"inner","secretKey":"another"}')
    stranger.table.directory.create(User("mine", ("secret of mine",)))
    await stranger.telling.round()
    assert a.known == {}


# --- somebody who has registered as a broker, and answers what he likes -----------------------------------------------


class Impostor:
    """Keeps what he is sent, and answers the same entries to every question. He has no inner credentials."""

    def __init__(self, wanted: list[str]) -> None:
        self.wanted, self.entries, self.heard = wanted, list[SharedUser](), dict[str, SharedUser]()

    async def ask(self, _: str, told: UserChanges) -> UserChangesAnswer:
        row = RequestCode.SHARE_USERS
        for entry in row.takes.read_body(row.takes.write_body(told)).entries:
            self.heard[entry.name] = entry
        answer = UserChangesAnswer(is_same=False, entries=self.entries, wanted=self.wanted)
        return row.gives.read_body(row.gives.write_body(answer))


LATER = 1_000_000_000_000_000


async def before_impostor(*wanted: str) -> tuple[World, Server, Impostor, UserSharing]:
    world, impostor = World(), Impostor(list(wanted))
    server = world.start("a")
    for name in ("eve", "root"):
        server.table.directory.create(User(name, ("secret of " + name,)))

    async def peers() -> list[str]:
        return ["impostor"]

    telling = UserSharing(server.exchange, impostor.ask, peers, lambda all_, most: all_[:most], SystemClock())
    await telling.round()
    return world, server, impostor, telling


async def test_who_has_no_inner_credentials_changes_nothing_by_what_he_answers() -> None:
    _, server, impostor, telling = await before_impostor("eve", "root")
    before, stamps = server.table.directory.snapshot(), dict(server.table.stamps.by_name)
    eve, root = impostor.heard["eve"], impostor.heard["root"]
    assert eve.user is not None
    assert root.user is not None
    all_topics = [
        {"policyType": "Custom", "entries": [{"resource": "Topic:*", "actions": ["All"], "decision": "Allow"}]}
    ]
    newer = replace(eve, changed_ms=LATER)
    forged = [
        newer,
        replace(eve, changed_by="z"),
        replace(newer, user=replace(eve.user, type="Super")),
        replace(newer, user=replace(eve.user, status="disable")),
        replace(newer, user=replace(eve.user, secrets=[])),
        replace(newer, policies=all_topics),
        replace(newer, proof=root.proof),
        replace(newer, proof=""),
        replace(newer, proof="\u00e9"),
        replace(newer, proof=eve.user.secrets[0]),
        replace(newer, name="mallory"),
        replace(root, user=None, changed_ms=LATER),
        replace(root, user=None, changed_ms=LATER, proof=""),
        SharedUser(name="mallory", changed_ms=LATER, changed_by="z", user=None, policies=[]),
    ]
    for entry in forged:
        impostor.entries = [entry]
        await telling.round()
        assert server.table.directory.snapshot() == before, entry
        assert dict(server.table.stamps.by_name) == stamps, entry


async def test_a_genuine_entry_that_is_old_loses_by_its_stamp() -> None:
    _, server, impostor, telling = await before_impostor("eve")
    impostor.entries = [impostor.heard["eve"]]
    server.table.directory.update("eve", None, None, UserStatus.DISABLED)
    await telling.round()
    assert server.table.directory.users["eve"].status is UserStatus.DISABLED
    impostor.entries = [impostor.heard["eve"]]
    server.table.directory.delete("eve")
    await telling.round()
    assert server.table.directory.find("eve") is None


async def test_what_both_secrets_of_the_inner_user_have_proved_counts_while_he_is_rotated() -> None:
    world = World()
    a, b = world.start("a"), world.start("b", '{"accessKey":"inner","secretKey":"another"}')
    a.table.directory.create(User("shop", ("secret of shop",)))
    a.table.directory.create(User("gone", ("secret of gone",)))
    for each in (a, b):
        each.table.directory.update("inner", "another", None, None, keep_old=True)
    b.table.directory.update("inner", "short", None, None, keep_old=True)
    await a.telling.round()
    assert set(a.known) == set(b.known) == {"shop", "gone"}
    b.table.directory.delete("gone")
    await b.telling.round()
    assert set(a.known) == set(b.known) == {"shop"}


async def test_a_server_proves_nothing_of_users_that_it_does_not_share() -> None:
    _, server, impostor, telling = await before_impostor("fetched", "nobody")
    server.table.directory.cache("fetched", User("fetched", ("secret of an impostor",), UserType.SUPER), ())
    await telling.round()
    assert impostor.heard == {}
