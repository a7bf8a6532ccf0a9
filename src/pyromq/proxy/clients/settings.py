"""What a client is told about how to behave: its own settings with the server's overwritten. Pure."""

from __future__ import annotations

from ...protocol.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from ...protocol.grpc import v2
from ...transport.address import parse_address
from ..config import ProxySettings

# The delays of a group that names none: seconds before each redelivery.
USUAL_DELAYS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
LITE_QUOTA = 2_000
_NO_GROUP = SubscriptionGroupConfig()


def producer_settings(asked: v2.Settings, settings: ProxySettings) -> v2.Settings:
    answer = v2.Settings()
    answer.CopyFrom(asked)
    policy = v2.RetryPolicy(max_attempts=settings.grpc_client_producer_max_attempts)
    backoff = policy.exponential_backoff
    backoff.initial.FromMilliseconds(settings.grpc_client_producer_backoff_initial_millis)
    backoff.max.FromMilliseconds(settings.grpc_client_producer_backoff_max_millis)
    backoff.multiplier = settings.grpc_client_producer_backoff_multiplier
    answer.backoff_policy.CopyFrom(policy)
    answer.publishing.validate_message_type = settings.enable_topic_message_type_check
    answer.publishing.max_body_size = settings.max_message_bytes
    _add_metric(answer, settings)
    return answer


def consumer_settings(
    asked: v2.Settings, group: SubscriptionGroupConfig | None, settings: ProxySettings
) -> v2.Settings:
    answer = v2.Settings()
    answer.CopyFrom(asked)
    group = group or _NO_GROUP
    subscription = answer.subscription
    subscription.fifo = group.consume_message_orderly
    subscription.receive_batch_size = settings.grpc_client_consumer_long_polling_batch_size
    longest_ms = settings.grpc_client_consumer_max_long_polling_timeout_millis
    subscription.long_polling_timeout.FromMilliseconds(longest_ms)
    subscription.lite_subscription_quota = LITE_QUOTA
    subscription.max_lite_topic_size = settings.max_lite_topic_size
    answer.backoff_policy.CopyFrom(retry_policy(group))
    _add_metric(answer, settings)
    return answer


def retry_policy(group: SubscriptionGroupConfig) -> v2.RetryPolicy:
    """Return how often and how late a group's messages come again."""
    made = v2.RetryPolicy(max_attempts=max_attempts(group))
    policy = group.group_retry_policy
    exponential = policy.exponential_retry_policy
    if policy.type == "EXPONENTIAL" and exponential is not None:
        made.exponential_backoff.initial.FromMilliseconds(exponential.initial)
        made.exponential_backoff.max.FromMilliseconds(exponential.max)
        made.exponential_backoff.multiplier = exponential.multiplier
        return made
    for delay_ms in _customized(policy):
        made.customized_backoff.next.add().FromMilliseconds(delay_ms)
    return made


def max_attempts(group: SubscriptionGroupConfig | None) -> int:
    """Return how often a message is delivered before it is a dead letter."""
    return (group or _NO_GROUP).retry_max_times + 1


def retry_delay_ms(group: SubscriptionGroupConfig | None, reconsumed: int) -> int:
    """Return how long a message that was delivered so often before waits for the next time."""
    policy = (group or _NO_GROUP).group_retry_policy
    exponential = policy.exponential_retry_policy
    if policy.type == "EXPONENTIAL" and exponential is not None:
        grown: int = exponential.initial * exponential.multiplier ** min(max(reconsumed, 0), 32)
        return min(grown, exponential.max)
    delays = _customized(policy)
    return delays[min(max(reconsumed, 0) + 2, len(delays) - 1)]


def _customized(policy: GroupRetryPolicy) -> list[int]:
    customized = policy.customized_retry_policy
    if customized is not None and customized.next:
        return list(customized.next)
    return [seconds * 1000 for seconds in USUAL_DELAYS_S]


def _add_metric(answer: v2.Settings, settings: ProxySettings) -> None:
    mode = settings.checked_metric_mode()
    answer.metric.CopyFrom(v2.Metric(on=mode != "off"))
    if mode == "proxy":
        answer.metric.endpoints.CopyFrom(answer.access_point)
    elif mode == "on":
        host, port = parse_address(settings.metric_collector_address)
        endpoints = answer.metric.endpoints
        endpoints.scheme = v2.AddressScheme.IPv4
        endpoints.addresses.add(host=host, port=port)
