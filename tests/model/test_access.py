"""Every request code says what it needs, and names fields and members that really exist."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from pyromq.model.access import ACCESS, Action, NameIn, Need, Resource
from pyromq.model.codes import RequestCode
from pyromq.protocol.exchanges import EXCHANGES
from pyromq.protocol.headers.send import SHORT_NAMES, SendMessageV2


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: code.name)
def test_each_code_has_a_row_with_a_need(code: RequestCode) -> None:
    needs = ACCESS[code].needs
    assert needs
    for need in needs:
        assert need.actions
        assert (need.name_in is NameIn.SERVER) == (need.resource is Resource.CLUSTER)
        assert bool(need.name) == (need.name_in in (NameIn.HEADER, NameIn.BODY))


def test_there_are_no_other_rows() -> None:
    assert set(ACCESS) == set(RequestCode)


def needs_in(where: NameIn) -> list[tuple[RequestCode, Need]]:
    return [(code, need) for code, access in ACCESS.items() for need in access.needs if need.name_in is where]


@pytest.mark.parametrize(("code", "need"), needs_in(NameIn.HEADER), ids=lambda value: getattr(value, "name", None))
def test_header_fields_exist(code: RequestCode, need: Need) -> None:
    kind = EXCHANGES[code].header
    assert kind is not None
    if kind is SendMessageV2:
        assert SHORT_NAMES[need.name] == "topic"
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    assert need.name in fields
    if fields[need.name].required:
        assert not need.optional


@pytest.mark.parametrize(("code", "need"), needs_in(NameIn.BODY), ids=lambda value: getattr(value, "name", None))
def test_body_members_exist(code: RequestCode, need: Need) -> None:
    kind: Any = EXCHANGES[code].body
    for member in need.name.split("."):
        kind = next(f.type for f in msgspec.structs.fields(kind) if f.encode_name == member)
        kind = get_args(kind)[0] if get_args(kind) else kind
    assert kind is str


def test_what_users_do_is_checked_on_their_topic_and_group() -> None:
    assert [need.actions for need in ACCESS[RequestCode.SEND_MESSAGE_V2].needs] == [(Action.PUB,)]
    pull = ACCESS[RequestCode.PULL_MESSAGE].needs
    assert {(need.resource, need.actions) for need in pull} == {
        (Resource.TOPIC, (Action.SUB,)),
        (Resource.GROUP, (Action.SUB,)),
    }


def test_administration_needs_the_cluster() -> None:
    for code in (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.AUTH_CREATE_USER, RequestCode.REGISTER_BROKER):
        (need,) = ACCESS[code].needs
        assert (need.resource, need.actions) == (Resource.CLUSTER, (Action.UPDATE,))
