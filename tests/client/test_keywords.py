"""The keywords that editors and type checkers know are those that the SDK takes, with the same types."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_type_hints

import pytest

import pyromq
import pyromq.testing
from pyromq.client.core.allocation import Average
from pyromq.client.keywords import Begin
from pyromq.testing.broker import RmqBroker

WIDER = {"begin": Begin}  # read before the options are made, see `arguments.read_begin`


@pytest.mark.parametrize(
    ("keywords", "options", "elsewhere"),
    [
        (pyromq.ClientSettings, pyromq.ClientConfig, {"name_servers"}),
        (pyromq.ConsumeSettings, pyromq.ConsumeOptions, set()),
        (pyromq.PullSettings, pyromq.PullOptions, set()),
        (pyromq.SimpleSettings, pyromq.SimpleOptions, set()),
    ],
)
def test_keywords_are_the_fields_of_the_options(keywords: Any, options: Any, elsewhere: set[str]) -> None:
    types = get_type_hints(options)
    wanted = {each.name: types[each.name] for each in dataclasses.fields(options) if each.name not in elsewhere}
    found = get_type_hints(keywords)
    assert found == wanted | {name: kind for name, kind in WIDER.items() if name in wanted}


def test_keywords_of_a_send_are_its_parameters() -> None:
    parameters = inspect.signature(pyromq.Producer.send).parameters.values()
    types = get_type_hints(pyromq.Producer.send)
    wanted = {each.name: types[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert get_type_hints(pyromq.SendArguments) == wanted


def test_types_of_the_fixtures_are_exported() -> None:
    assert pyromq.testing.RmqBroker is RmqBroker
    for name in pyromq.testing.__all__:
        assert inspect.isclass(getattr(pyromq.testing, name))
    with pytest.raises(AttributeError, match="has no attribute 'Nobody'"):
        _ = pyromq.testing.Nobody


def test_defaults_are_those_of_java_s_clients() -> None:
    policy, packing, consume = pyromq.SendPolicy(), pyromq.Packing(), pyromq.ConsumeOptions()
    assert (policy.timeout_s, policy.retries, policy.retry_not_ok) == (3.5, 2, False)  # Java's 3 s, and the way back
    assert (packing.compress_over_bytes, packing.max_message_bytes) == (4096, 4 << 20)
    assert (consume.concurrency, consume.pull_messages, consume.max_batch, consume.timeout_s) == (20, 32, None, 900)
    assert (consume.begin, consume.broadcast, consume.strategy) == (
        pyromq.ConsumeFromWhere.LAST_OFFSET,
        False,
        Average(),
    )
    assert (consume.commit_s, consume.rebalance_s, consume.hold_s, pyromq.PullOptions().hold_s) == (5, 20, 15, 20)
    client = pyromq.ClientConfig(name_servers=("a:1",))
    assert (client.route_refresh_s, client.heartbeat_s, client.vip_channel, client.trace) == (30, 30, False, False)
