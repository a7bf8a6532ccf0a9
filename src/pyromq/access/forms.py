"""Users and policies as requests 3001 to 3010, mqadmin and our table write them, to values and back, as 5.5.0 reads.

Names of kinds, actions and decisions are taken in any case and shown in their own. Actions that nobody knows are left
out, other things that nobody knows are refused.
"""

from __future__ import annotations

from ..protocol.access import Action
from ..protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from .directory import USER, refused
from .patterns import Network, Pattern, network_of
from .policies import ALL, Decision, Policies, Policy, PolicyEntry, PolicyKind
from .users import User, UserStatus, UserType

_ACTIONS = {action.value.lower(): action.value for action in Action} | {ALL.lower(): ALL}
_ANY = "any"  # of requests: no policy may name it


def user_type(text: str | None) -> UserType | None:
    return next((each for each in UserType if text is not None and each.value.lower() == text.lower()), None)


def user_status(text: str | None) -> UserStatus | None:
    return next((each for each in UserStatus if text is not None and each.value.lower() == text.lower()), None)


def subject_name(subject: str | None) -> str:
    """Return the user's name in `User:name`. RequestRefused for other subjects: 5.5.0 has no others."""
    kind, colon, name = (subject or "").partition(":")
    if kind.lower() + colon != USER.lower():
        raise refused("The subject is null.")
    return name


def user_info(user: User, *, with_secret: bool) -> UserInfo:
    return UserInfo(
        username=user.name,
        password=user.secrets[0] if with_secret else None,
        user_type=user.type.value,
        user_status=user.status.value,
        old_password_valid=True if len(user.secrets) > 1 else None,
    )


def policies_of(info: AclInfo) -> Policies:
    """Return a request's policies. RequestRefused in 5.5.0's words for what it takes from nobody."""
    if not info.policies:
        raise refused("The policies is empty.")
    return tuple(_policy(policy) for policy in info.policies if policy.entries)


def _policy(info: PolicyInfo) -> Policy:
    wanted = (info.policy_type or "").lower()
    kind = next((each for each in PolicyKind if each.value.lower() == wanted), PolicyKind.CUSTOM)
    return Policy(kind, tuple(_entry(entry) for entry in info.entries))


def _entry(info: PolicyEntryInfo) -> PolicyEntry:
    pattern = Pattern.parse(info.resource)
    if pattern is None:
        raise refused("The resource is null.")
    given = [action.lower() for action in info.actions or ()]
    if _ANY in given:
        raise refused("The actions can not be Any.")
    actions = tuple(_ACTIONS[action] for action in given if action in _ACTIONS)
    if not actions:
        raise refused("The actions is empty.")
    decision = next((each for each in Decision if each.value.lower() == (info.decision or "").lower()), None)
    if decision is None:
        raise refused("The decision is null or illegal.")
    sources = tuple(info.source_ips or ())
    return entry(pattern, actions, decision, sources)


def entry(pattern: Pattern, actions: tuple[str, ...], decision: Decision, sources: tuple[str, ...] = ()) -> PolicyEntry:
    """Return an entry of a policy. RequestRefused where a source is no address."""
    networks: list[Network] = []
    for source in sources:
        if not source.strip():
            raise refused("The source ip is empty.")
        network = network_of(source)
        if network is None:
            raise refused("The source ip is invalid.")
        networks.append(network)
    covered = frozenset(action for action in Action if action.value in actions or ALL in actions)
    return PolicyEntry(pattern, actions, decision, sources, tuple(networks), covered)


def acl_info(name: str, policies: Policies, resource_filter: str = "") -> AclInfo | None:
    """Return a user's policies as they are shown: those whose resource has `resource_filter` in it, None if none has.

    As in 5.5.0, a filter that the subject itself has in it leaves out nothing."""
    subject = USER + name
    if resource_filter.strip() and resource_filter not in subject:
        policies = tuple(
            Policy(policy.kind, tuple(entry for entry in policy.entries if resource_filter in str(entry.pattern)))
            for policy in policies
        )
    shown = [
        PolicyInfo(policy_type=policy.kind.value, entries=[_shown(entry) for entry in policy.entries])
        for policy in policies
        if policy.entries
    ]
    return AclInfo(subject=subject, policies=shown) if shown else None


def _shown(entry: PolicyEntry) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource=str(entry.pattern),
        actions=list(entry.actions),
        source_ips=list(entry.sources) or None,
        decision=entry.decision.value,
    )
