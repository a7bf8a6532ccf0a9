"""Who is asked about: users, each with what the rule under test needs, and what is asked as them.

By hand there is one user per rule; the others are made by a seed, so that a second recording asks the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import asks
from .asks import Ask

HOME, OTHER, FAR, SIX = "127.0.0.1", "127.0.0.2", "127.1.0.7", "::1"
SETTINGS = {"authenticationWhitelist": "32,300,28", "authorizationWhitelist": "303, 300,28"}

Entry = dict[str, Any]
ORDERS, SHOP = "orders", "shop"


def entry(decision: str, resource: str, actions: str, *sources: str) -> Entry:
    made: Entry = {"resource": resource, "actions": actions.split(","), "decision": decision}
    return made | ({"sourceIps": list(sources)} if sources else {})


def allow(resource: str, actions: str, *sources: str) -> Entry:
    return entry("Allow", resource, actions, *sources)


def deny(resource: str, actions: str, *sources: str) -> Entry:
    return entry("Deny", resource, actions, *sources)


@dataclass(frozen=True)
class Asked:
    """A request and who sends it: `signed` says how he shows who he is."""

    ask: Ask
    source: str = HOME
    signed: str = "right"  # or: wrong secret, no signature, nothing


@dataclass
class Person:
    """A user, what he has, and what is asked as him. Entries of `custom` and `default` come in one request."""

    about: str
    custom: list[Entry] = field(default_factory=list)
    default: list[Entry] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    type: str = "Normal"
    status: str = "enable"
    exists: bool = True

    def asks(self, *requests: Ask, source: str = HOME, signed: str = "right") -> Person:
        self.asked += [Asked(one, source, signed) for one in requests]
        return self

    def policies(self) -> list[dict[str, Any]]:
        both = (("Custom", self.custom), ("Default", self.default))
        return [{"policyType": kind, "entries": entries} for kind, entries in both if entries]


def all_asks(topic: str = ORDERS, group: str = SHOP) -> list[Ask]:
    """Return one of each request."""
    both = (asks.pull, asks.pop, asks.ack, asks.offset, asks.commit, asks.lock, asks.unlock, asks.reset, asks.time_span)
    of_topic: list[Callable[[str], Ask]] = [asks.send, asks.old_send, asks.recall, asks.query_message]
    of_topic += [asks.max_offset, asks.min_offset, asks.oldest, asks.search_offset]
    of_topic += [asks.create_topic, asks.delete_topic, asks.topic_stats, asks.topic_config]
    of_group = (asks.send_back, asks.unregister, asks.members, asks.group_config, asks.delete_group, asks.topics_of)
    of_cluster = (asks.list_users, asks.delete_user, asks.broker_stats, asks.producers, asks.settings, asks.runtime)
    return [
        *(one(topic) for one in of_topic),
        *(one(topic, group) for one in both),
        asks.heartbeat(group, topic),
        *(one(group) for one in of_group),
        asks.create_group(group),
        asks.progress(group, topic),
        asks.clone_offsets(group, "other", topic),
        *(one() for one in of_cluster),
        asks.producers_heartbeat(),
    ]


def by_hand() -> dict[str, Person]:
    """Return a user for each rule."""
    return {**_identities(), **_resources(), **_precedence(), **_sources(), **_each_action(), **_white_lists()}


def _identities() -> dict[str, Person]:
    everything = [allow("*", "All")]
    plain = (asks.send(ORDERS), asks.pull(ORDERS, SHOP), asks.list_users(), asks.settings())
    found = {
        "super": Person("a super user without policies", type="Super").asks(*all_asks()),
        "bare": Person("a user without policies").asks(*all_asks()),
        "denied-super": Person("a super user who is denied all", [deny("*", "All")], type="Super").asks(*plain),
        "disabled": Person("a disabled user", everything, status="disable").asks(*plain),
        "disabled-super": Person("a disabled super user", type="Super", status="disable").asks(*plain),
        "unknown": Person("nobody of that name", exists=False).asks(*plain),
        "wrong": Person("who has another's name", everything).asks(*plain, signed="wrong secret"),
        "unsigned": Person("a name without a signature", everything).asks(*plain, signed="no signature"),
        "nobody": Person("no name at all", everything).asks(*plain, signed="nothing"),
    }
    for person in found.values():
        person.asks(asks.producers_heartbeat())
    return found


def _resources() -> dict[str, Person]:
    eu, order = "orders-eu", "order"
    names = (ORDERS, eu, order, "orders-", "Orders", "%RETRY%shop", "%DLQ%shop", "ns%orders", "*")
    sends = tuple(asks.send(name) for name in names)
    pulls = tuple(asks.pull(topic, group) for topic in (ORDERS, eu, "%RETRY%shop") for group in (SHOP, "shop-eu"))
    administration = (asks.list_users(), asks.delete_user(), asks.producers())
    return {
        "literal": Person("one topic", [allow("Topic:orders", "Pub")]).asks(*sends, asks.old_send(eu)),
        "prefix": Person("topics by prefix", [allow("Topic:orders-*", "Pub")]).asks(*sends),
        "prefix-of-all": Person("a prefix before nothing", [allow("Topic:**", "Pub")]).asks(*sends),
        "star-inside": Person("a star that is not the last", [allow("Topic:or*rs", "Pub")]).asks(*sends),
        "two-stars": Person("two stars", [allow("Topic:or*rs*", "Pub")]).asks(*sends, asks.send("or*rs-1")),
        "all-topics": Person("all topics", [allow("Topic:*", "Pub")]).asks(*sends, *pulls),
        "all-kinds": Person("everything", [allow("*", "Pub")]).asks(*sends, asks.delete_user()),
        "namespace": Person("a namespace", [allow("Namespace:ns", "All")]).asks(*sends),
        "names-in-ns": Person("a namespace's names", [allow("Topic:ns%*", "Pub")]).asks(*sends),
        "topic-only": Person("the topic, not the group", [allow("Topic:*", "Sub")]).asks(*pulls),
        "group-only": Person("the group, not the topic", [allow("Group:shop", "Sub")]).asks(*pulls, *sends),
        "both": Person("both", [allow("Topic:orders", "Sub"), allow("Group:shop", "Sub")])
        .asks(*pulls, *sends, asks.heartbeat(SHOP, ORDERS), asks.heartbeat(SHOP, ORDERS, "%RETRY%shop"))
        .asks(asks.heartbeat(SHOP, ORDERS, eu), asks.heartbeat("shop-eu", ORDERS), asks.send_back(SHOP)),
        "retry-topic": Person("the retry topic by its name", [allow("Topic:%RETRY%*", "All")]).asks(*sends, *pulls),
        "retry-producers": Person("who sends to a retry topic", [allow("Group:producers", "Sub")]).asks(*sends),
        "cluster": Person("the cluster", [allow("Cluster:DefaultCluster", "Get")]).asks(*administration),
        "clusters": Person("clusters by prefix", [allow("Cluster:Def*", "Get,Update")]).asks(*administration),
        "all-clusters": Person("all clusters", [allow("Cluster:*", "All")]).asks(*administration),
        "other-cluster": Person("another cluster", [allow("Cluster:Other", "All")]).asks(*administration),
        "small-letters": Person("kinds in small letters", [allow("topic:orders", "pub")]).asks(*sends),
    }


def _precedence() -> dict[str, Person]:
    sends = tuple(asks.send(name) for name in (ORDERS, "orders-eu", "orders-eu-1", "other"))
    found: dict[str, Person] = {}

    def rule(name: str, about: str, custom: list[Entry], default: list[Entry] | None = None) -> None:
        found[name] = Person(about, custom, default or []).asks(*sends)
        if len(custom) > 1:
            found[f"{name}-turned"] = Person(f"{about}, the other way round", custom[::-1], default or []).asks(*sends)

    rule("narrow-deny", "a literal before a prefix", [deny("Topic:orders", "Pub"), allow("Topic:ord*", "Pub")])
    rule("narrow-allow", "a literal before a prefix", [allow("Topic:orders", "Pub"), deny("Topic:ord*", "Pub")])
    rule("longer", "a longer prefix first", [deny("Topic:orders-eu*", "Pub"), allow("Topic:orders*", "Pub")])
    rule("longer-allow", "a longer prefix first", [allow("Topic:orders-eu*", "Pub"), deny("Topic:orders*", "Pub")])
    rule("prefix-any", "a prefix before all of a kind", [deny("Topic:orders*", "Pub"), allow("Topic:*", "Pub")])
    rule("kind-any", "a kind before everything", [deny("Topic:*", "Pub"), allow("*", "All")])
    rule("kind-any-allow", "a kind before everything", [allow("Topic:*", "Pub"), deny("*", "All")])
    rule("equal", "equally narrow", [deny("Topic:orders", "Pub"), allow("Topic:orders", "Pub")])
    rule("equal-prefix", "equally narrow", [deny("Topic:orders*", "Pub"), allow("Topic:orders*", "Pub")])
    rule("equal-any", "equally narrow", [deny("Topic:*", "Pub"), allow("Topic:*", "Pub")])
    rule("equal-all", "equally narrow", [deny("*", "Pub"), allow("*", "Pub")])
    rule("equal-actions", "All against one action", [deny("Topic:orders", "All"), allow("Topic:orders", "Pub")])
    rule("not-my-action", "another action denied", [deny("Topic:orders", "Sub"), allow("Topic:*", "Pub")])
    rule("custom-first", "Custom before Default", [deny("Topic:*", "Pub")], [allow("Topic:orders", "Pub")])
    rule("custom-allows", "Custom before Default", [allow("*", "Pub")], [deny("Topic:orders", "Pub")])
    rule("default-next", "Default where Custom says nothing", [allow("Topic:other", "Pub")], [allow("Topic:o*", "Pub")])
    rule("default-only", "Default alone", [], [allow("Topic:orders*", "Pub"), deny("Topic:orders-eu", "Pub")])
    rule("custom-action", "Custom of another action", [deny("Topic:orders", "Sub")], [allow("Topic:orders", "Pub")])
    rule("elsewhere", "Custom from elsewhere", [deny("Topic:orders", "Pub", OTHER)], [allow("Topic:orders", "Pub")])
    return found


def _sources() -> dict[str, Person]:
    tried = {
        "one": (HOME,),
        "block": ("127.0.0.0/16",),
        "two": (OTHER, "10.0.0.0/8"),
        "all-four": ("0.0.0.0/0",),
        "bits": ("127.0.0.3/31",),
        "six": ("::1",),
        "long-six": ("0:0:0:0:0:0:0:1",),
        "block-six": ("::/0",),
        "small-six": ("::/64",),
        "both": (HOME, "::1/128"),
    }
    found = {}
    for name, networks in tried.items():
        for decision in ("Allow", "Deny"):
            rest = [] if decision == "Allow" else [allow("Topic:*", "Pub")]
            about = f"{decision} from {' and '.join(networks)}"
            person = Person(about, [entry(decision, "Topic:orders", "Pub", *networks), *rest])
            for source in (HOME, OTHER, FAR, SIX):
                person.asks(asks.send(ORDERS), source=source)
            found[f"from-{name}-{decision.lower()}"] = person
    return found


def _each_action() -> dict[str, Person]:
    """Return a user for each action, who has it on everything: every request is asked."""
    words = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
    return {f"only-{word.lower()}": Person(f"{word} on all", [allow("*", word)]).asks(*all_asks()) for word in words}


def _white_lists() -> dict[str, Person]:
    listed = (asks.oldest(ORDERS), asks.time_span(ORDERS, SHOP), asks.consumed_by(ORDERS), asks.runtime())
    found = {}
    for signed in ("right", "wrong secret", "no signature", "nothing"):
        name = signed.replace(" ", "-")
        found[f"listed-{name}"] = Person(f"codes of white lists: {signed}").asks(*listed, signed=signed)
        allowed = Person(f"codes of white lists, with rights: {signed}", [allow("*", "All")])
        found[f"listed-allowed-{name}"] = allowed.asks(*listed, signed=signed)
    found["listed-unknown"] = Person("codes of white lists: nobody of that name", exists=False).asks(*listed)
    found["listed-disabled"] = Person("codes of white lists: a disabled user", status="disable").asks(*listed)
    return found


# --- by a seed --------------------------------------------------------------------------------------------------------

_RESOURCES = (
    *("*", "Topic:*", "Topic:o*", "Topic:orders*", "Topic:orders-*", "Topic:orders", "Topic:orders-eu"),
    *("Group:*", "Group:s*", "Group:shop*", "Group:shop", "Group:shop-eu"),
    *("Cluster:*", "Cluster:DefaultCluster", "Cluster:D*", "Cluster:Other", "Namespace:*"),
)
_ACTIONS = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
_NETWORKS = ((), (), (), (HOME,), ("127.0.0.0/8",), (OTHER, "10.0.0.0/8"), ("127.1.0.0/16",))


def by_seed(count: int, seed: int = 20) -> dict[str, Person]:
    rng = random.Random(seed)
    return {f"random-{number:02}": _random(rng) for number in range(count)}


def _random(rng: random.Random) -> Person:
    person = Person("made by a seed", _entries(rng, 5), _entries(rng, 3))
    for _ in range(8):
        topic = rng.choice((ORDERS, "orders-eu", "other", "%RETRY%shop"))
        group = rng.choice((SHOP, "shop-eu", "else"))
        person.asks(rng.choice(all_asks(topic, group)), source=rng.choice((HOME, HOME, OTHER, FAR)))
    return person


def _entries(rng: random.Random, most: int) -> list[Entry]:
    return [
        entry(
            rng.choice(("Allow", "Allow", "Deny")),
            rng.choice(_RESOURCES),
            ",".join(rng.sample(_ACTIONS, rng.randint(1, 4))),
            *rng.choice(_NETWORKS),
        )
        for _ in range(rng.randint(0, most))
    ]
