"""Every request code says what it needs, and names fields and members that really exist."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from pyromq.protocol.access import Action, NameIn, Need, Resource
from pyromq.protocol.headers.send import SHORT_NAMES, SendMessageV2
from pyromq.protocol.requests import ROWS, RequestCode
from pyromq.protocol.row import AnyRow


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_each_code_has_a_need(row: AnyRow) -> None:
    assert row.needs
    for need in row.needs:
        assert need.actions
        assert (need.name_in is NameIn.SERVER) == (need.resource is Resource.CLUSTER)
        assert bool(need.name) == (need.name_in in (NameIn.HEADER, NameIn.BODY))


def needs_in(where: NameIn) -> list[tuple[AnyRow, Need]]:
    return [(row, need) for row in ROWS.values() for need in row.needs if need.name_in is where]


@pytest.mark.parametrize(("row", "need"), needs_in(NameIn.HEADER), ids=lambda value: getattr(value, "name", None))
def test_header_fields_exist(row: AnyRow, need: Need) -> None:
    kind = row.takes.header
    assert kind is not None
    if kind is SendMessageV2:
        assert SHORT_NAMES[need.name] == "topic"
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    assert need.name in fields
    if fields[need.name].required:
        assert not need.optional


@pytest.mark.parametrize(("row", "need"), needs_in(NameIn.BODY), ids=lambda value: getattr(value, "name", None))
def test_body_members_exist(row: AnyRow, need: Need) -> None:
    kind: Any = row.takes.body
    for member in need.name.split("."):
        kind = next(f.type for f in msgspec.structs.fields(kind) if f.encode_name == member)
        kind = get_args(kind)[0] if get_args(kind) else kind
    assert kind is str


def test_what_users_do_is_checked_on_their_topic_and_group() -> None:
    assert [need.actions for need in RequestCode.SEND_MESSAGE_V2.needs] == [(Action.PUB,)]
    pull = RequestCode.PULL_MESSAGE.needs
    assert {(need.resource, need.actions) for need in pull} == {
        (Resource.TOPIC, (Action.SUB,)),
        (Resource.GROUP, (Action.SUB,)),
    }


def test_administration_needs_the_cluster() -> None:
    rows: tuple[AnyRow, ...] = (
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.AUTH_CREATE_USER,
        RequestCode.REGISTER_BROKER,
    )
    for row in rows:
        (need,) = row.needs
        assert (need.resource, need.actions) == (Resource.CLUSTER, (Action.UPDATE,))
