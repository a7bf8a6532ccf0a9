"""How long a message that failed waits before its group gets it again. Pure.

Without a policy of its own a group follows the delay levels: 3 for the first retry, then one more each time. A list
(CUSTOMIZED with `next`) or a back-off (EXPONENTIAL) in the group's configuration takes their place.
"""

from __future__ import annotations

from ...protocol.bodies.groups import GroupRetryPolicy

FIRST_LEVEL = 3
MOST_DOUBLINGS = 32  # as Java: beyond it the longest time is reached in any case


def level_for(failed_before: int) -> int:
    return FIRST_LEVEL + failed_before


def policy_delay_ms(policy: GroupRetryPolicy, failed_before: int) -> int | None:
    """Return milliseconds by the group's own policy, None if it has none. The last time of a list goes on for ever."""
    exponential = policy.exponential_retry_policy
    if policy.type == "EXPONENTIAL" and exponential is not None:
        grown: int = exponential.initial * max(1, exponential.multiplier) ** min(max(failed_before, 0), MOST_DOUBLINGS)
        return max(0, min(grown, exponential.max))
    custom = policy.customized_retry_policy
    if policy.type == "CUSTOMIZED" and custom is not None and custom.next:
        return max(0, custom.next[min(max(failed_before, 0), len(custom.next) - 1)])
    return None
