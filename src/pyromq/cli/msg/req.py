"""`pyromq req`: a request, and the reply that a consumer gives to it."""

from __future__ import annotations

import click

from ..terminal.options import seconds
from ..terminal.printing import print_as_it_is
from ..terminal.shell import Shell, talks
from ..terminal.tree import command


@command("pyromq req prices '{\"item\": 7}'", "pyromq req prices @question.json --wait 10 --json")
@click.argument("topic")
@click.argument("body", default="-")
@click.option("--tag", help="Tag of the request.")
@click.option("--key", "keys", multiple=True, help="Key to find it by; may be given several times.")
@click.option("--prop", "props", multiple=True, metavar="NAME=VALUE", help="Property; may be given several times.")
@click.option(
    "--wait",
    type=seconds(),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="For the reply.",
)
@talks
async def req(
    shell: Shell,
    topic: str,
    body: str,
    tag: str | None,
    keys: tuple[str, ...],
    props: tuple[str, ...],
    wait: float,
) -> None:
    """Send BODY to TOPIC (a text, @FILE, or - for standard input) and show what a consumer replies.

    Exit code 2 if nobody replies in time.
    """
    from .pub import bodies, check_name, pairs

    check_name(topic)
    (content,) = bodies(body, lines=False, count=1)
    async with shell.client() as client, client.producer() as producer:
        reply = await producer.request(topic, content, tag=tag, keys=keys, props=pairs(props), timeout=wait)
    text = reply.body.decode("utf-8", "backslashreplace")
    if shell.as_json:
        shell.rows([{"topic": topic, "reply": text, "properties": reply.properties}])
    else:
        print_as_it_is(text)
