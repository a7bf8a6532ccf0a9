"""`pyromq msg recheck`: the way back for a message whose transaction the broker has given up."""

from __future__ import annotations

import click

from ... import admin
from ...client.errors import Refused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.names import CHECKS_EXHAUSTED_TOPIC
from ..terminal.shell import Shell, changes
from ..terminal.tree import Fail, command


@command(
    f"pyromq msg query {CHECKS_EXHAUSTED_TOPIC}      what was given up",
    "pyromq msg recheck 7F000001...",
)
@click.argument("message_id")
@changes
async def recheck(shell: Shell, message_id: str) -> None:
    """Let the broker ask anew how the transaction of a message ended, which it has given up.

    MESSAGE_ID is the message's id or its offset id. The check handler of its producer group decides: have it run first.
    Exit code 1: no such message was given up, or it was asked about again since.
    """
    places = await shell.masters()
    found = await admin.search.by_id(shell.calls, places, CHECKS_EXHAUSTED_TOPIC, message_id)
    if found is None:
        raise Fail(f"no message {message_id} was given up here. List them: pyromq msg query {CHECKS_EXHAUSTED_TOPIC}")
    about = found.message.properties
    topic, group = about.get(Property.REAL_TOPIC, ""), about.get(Property.PGROUP, "")
    await _check_given_up(shell, found, topic)
    if shell.is_dry:
        shell.about_to(f"let producers of group {group} be asked about {message_id} of topic {topic} again")
    await admin.messages.check_again(shell.calls, found.place.address, found.message.offset_id)
    row = {"messageId": admin.copies.message_id(found.message), "topic": topic, "producerGroup": group}
    shell.rows([row | {"broker": found.place.name}])


async def _check_given_up(shell: Shell, found: admin.search.Found, topic: str) -> None:
    """Fail for one that was asked about again since: it would be delivered twice. Apache's brokers do not tell."""
    unique = admin.copies.message_id(found.message)
    try:
        life = await admin.messages.life(shell.calls, found.place.address, topic, unique)
    except Refused as fault:
        if fault.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return
    if life is not None and life["state"] != admin.messages.GIVEN_UP:
        raise Fail(f"message {unique} is no longer given up, it is {life['state']}: pyromq msg get {topic} {unique}")
