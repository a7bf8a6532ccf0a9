"""Roles as ready policies: what a reader, an operator and an administrator may do. Pure.

A role is the user's Default policy, so entries of his own (Custom), which count first, can give him more or less.
"""

from __future__ import annotations

from ..protocol.bodies.groups import PolicyEntryInfo, PolicyInfo

DEFAULT = "Default"  # the kind of policy that a role is

_READS = ["Get", "List"]
_KEEPS = ["Create", "Update", "Delete", "Get", "List"]

# By kind of resource. `Update` on the cluster is the administrator's alone: who has it may change anybody's policies.
ROLES: dict[str, dict[str, list[str]]] = {
    "reader": {"Cluster": _READS, "Topic": _READS, "Group": _READS},
    "operator": {"Cluster": _READS, "Topic": _KEEPS, "Group": _KEEPS},
    "administrator": {"Cluster": ["All"], "Topic": _KEEPS, "Group": _KEEPS},
}


def policy_of(role: str) -> PolicyInfo:
    entries = [
        PolicyEntryInfo(resource=f"{kind}:*", actions=actions, decision="Allow")
        for kind, actions in ROLES[role].items()
    ]
    return PolicyInfo(policy_type=DEFAULT, entries=entries)


def role_of(policies: list[PolicyInfo] | None) -> str:
    """Return the role that a user's policies have in them; "": none."""
    for policy in policies or ():
        if policy.policy_type == DEFAULT:
            found = {entry.resource: (entry.actions, entry.decision, entry.source_ips) for entry in policy.entries}
            for role, kinds in ROLES.items():
                if found == {f"{kind}:*": (actions, "Allow", None) for kind, actions in kinds.items()}:
                    return role
    return ""
