"""`pyromq kv`: the name servers' key-value table."""

from __future__ import annotations

import click

from ... import admin
from ...model.topic import ORDER_TOPIC_CONFIG, parse_order
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, Tree, command, unknown
from ..terminal.validation import check_name_servers


@click.group(cls=Tree)
def kv() -> None:
    """The name servers' key-value table."""


@command("pyromq kv list ORDER_TOPIC_CONFIG", of=kv, name="list")
@click.argument("namespace")
@talks
async def list_keys(shell: Shell, namespace: str) -> None:
    """List the keys of NAMESPACE. Exit code 1 if there is none."""
    found = await admin.settings.kv_list(shell.calls, namespace)
    shell.rows([{"key": key, "value": value} for key, value in sorted(found.items())])
    if not found:
        raise Fail(f"namespace {namespace!r} has no keys")


@command("pyromq kv get ORDER_TOPIC_CONFIG orders", of=kv)
@click.argument("namespace")
@click.argument("key")
@talks
async def get(shell: Shell, namespace: str, key: str) -> None:
    """Show the value of KEY. Exit code 1 if there is none."""
    value = await admin.settings.kv_get(shell.calls, namespace, key)
    if value is None:
        raise await _no_key(shell, namespace, key)
    shell.rows([{"namespace": namespace, "key": key, "value": value}])


@command("pyromq kv set ORDER_TOPIC_CONFIG orders 'broker-a:4' --yes", of=kv, name="set")
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
@changes
async def put(shell: Shell, namespace: str, key: str, value: str) -> None:
    """Set KEY to VALUE on every name server."""
    if namespace == ORDER_TOPIC_CONFIG:
        try:
            parse_order(key, value)
        except ValueError as fault:
            raise click.UsageError(str(fault).replace("the name servers' ", "")) from None
    now = await admin.settings.kv_get(shell.calls, namespace, key)
    await check_name_servers(shell)
    if now is not None or shell.is_dry or namespace == ORDER_TOPIC_CONFIG:
        plan = [{"namespace": namespace, "key": key, "now": now, "value": value}]
        shell.about_to(f"change {key} in {namespace}{_moved(namespace, key)}", plan)
    await admin.settings.kv_put(shell.calls, namespace, key, value)
    shell.rows([{"namespace": namespace, "key": key, "value": value}])


@command("pyromq kv delete ORDER_TOPIC_CONFIG orders --yes", of=kv)
@click.argument("namespace")
@click.argument("key")
@changes
async def delete(shell: Shell, namespace: str, key: str) -> None:
    """Delete KEY on every name server."""
    now = await admin.settings.kv_get(shell.calls, namespace, key)
    if now is None:
        raise await _no_key(shell, namespace, key)
    row = {"namespace": namespace, "key": key, "value": now}
    await check_name_servers(shell)
    shell.about_to(f"delete {key} of {namespace}{_moved(namespace, key)}", [row])
    await admin.settings.kv_delete(shell.calls, namespace, key)
    shell.rows([row | {"deleted": True}])


def _moved(namespace: str, key: str) -> str:
    """Return what the change does to messages: nothing, unless clients choose queues by it."""
    moved = f" and move order keys of topic {key} to other queues: their next messages may overtake those that wait"
    return moved if namespace == ORDER_TOPIC_CONFIG else ""


async def _no_key(shell: Shell, namespace: str, key: str) -> Fail:
    return unknown("key", key, await admin.settings.kv_list(shell.calls, namespace), f"Looked for in {namespace!r}")
