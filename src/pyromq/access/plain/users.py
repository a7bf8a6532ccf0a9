"""What an account of ACL 1.0 is here: a user with policies, once as RocketMQ 5.x migrates it, once as 4.9 judges it.

They differ. In 4.9 a permission of a name says everything about the name, and the default nothing; in policies the
default counts for what the name's entry does not speak of. In 4.9 an admin with permissions has no others for sending
and consuming; the migration makes him a super user. And everybody may send traces.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...model import names
from ...protocol.access import Action, Resource
from ...protocol.bodies.groups import PolicyEntryInfo, PolicyInfo, UserInfo
from ..forms import entry
from ..patterns import Pattern, Shape
from ..policies import ALL, Decision, Policies, Policy, PolicyEntry, PolicyKind
from ..users import User, UserType
from .accounts import Permission, PlainAccount

_ADMINISTERS = frozenset(Action) - {Action.PUB, Action.SUB}

# --- as RocketMQ 5.x migrates it --------------------------------------------------------------------------------------


def migrated_user(account: PlainAccount) -> UserInfo:
    kind = UserType.SUPER if account.is_admin else UserType.NORMAL
    return UserInfo(username=account.name, password=account.secret, user_type=kind.value)


def migrated_policies(account: PlainAccount) -> list[PolicyInfo]:
    """Return the permissions of names as the Custom policy, the defaults as the Default one."""
    named = [(f"Topic:{name}", given) for name, given in account.topics]
    named += [(f"Group:{name}", given) for name, given in account.groups]
    defaults = (("Topic:*", account.topic_default), ("Group:*", account.group_default))
    found = {
        PolicyKind.CUSTOM: [_shown(resource, given) for resource, given in named],
        PolicyKind.DEFAULT: [_shown(resource, given) for resource, given in defaults if given is not None],
    }
    return [PolicyInfo(policy_type=kind.value, entries=entries) for kind, entries in found.items() if entries]


def _shown(resource: str, given: Permission) -> PolicyEntryInfo:
    actions = [action.value for action in Action if action in given]
    decision = Decision.ALLOW if given else Decision.DENY
    return PolicyEntryInfo(resource=resource, actions=actions or [ALL], decision=decision.value)


# --- as RocketMQ 4.9 judges it ----------------------------------------------------------------------------------------


def judged_user(account: PlainAccount) -> User:
    is_super = account.is_admin and not (account.topics or account.groups)
    return User(account.name, (account.secret,), UserType.SUPER if is_super else UserType.NORMAL)


def judged_policies(account: PlainAccount) -> Policies:
    """Return what an account may do, for decisions in which Allow wins."""
    more = _ADMINISTERS if account.is_admin else frozenset()
    traces = Pattern(Resource.TOPIC, names.TRACE_TOPIC, Shape.LITERAL)
    custom = [entry(traces, (Action.PUB.value,), Decision.ALLOW)]
    for pattern, given in _named(account):
        custom += [*_allowed(pattern, given | more), entry(pattern, (ALL,), Decision.DENY)]
    default = [
        each
        for kind, given in ((Resource.TOPIC, account.topic_default), (Resource.GROUP, account.group_default))
        for each in _allowed(Pattern(kind, "", Shape.ANY), (given or frozenset()) | more)
    ]
    if account.is_admin:
        default.append(entry(Pattern(Resource.CLUSTER, "", Shape.ANY), (ALL,), Decision.ALLOW))
    return Policy(PolicyKind.CUSTOM, tuple(custom)), Policy(PolicyKind.DEFAULT, tuple(default))


def _named(account: PlainAccount) -> Iterable[tuple[Pattern, Permission]]:
    """Return names as they stand: no `*` in them means anything. A group may be named by its retry topic among the
    topics, which count more where both name it."""
    found = {Pattern(Resource.GROUP, name, Shape.LITERAL): given for name, given in account.groups}
    for name, given in account.topics:
        is_group = name.startswith(names.RETRY_PREFIX)
        kind = Resource.GROUP if is_group else Resource.TOPIC
        found[Pattern(kind, name.removeprefix(names.RETRY_PREFIX), Shape.LITERAL)] = given
    return found.items()


def _allowed(pattern: Pattern, given: Permission) -> list[PolicyEntry]:
    actions = tuple(action.value for action in Action if action in given)
    return [entry(pattern, actions, Decision.ALLOW)] if actions else []
