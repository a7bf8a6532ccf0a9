"""--tls and its like: declared once, for every command that opens connections and for `pyromq profile set`.

`take` turns what click gives into a choice of the SDK's; the environment and profiles are added in `profiles.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ...client.connect.tls_choice import TlsChoice

F = TypeVar("F", bound=Callable[..., Any])

VERIFY = ("full", "ca", "none")
# Spelling, how click takes it. Also what a group hands on to its commands (tree.py).
OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--tls/--no-tls", {"default": None, "help": "Encrypted connections, or plain ones.  [PYROMQ_TLS]"}),
    ("--tls-ca", {"metavar": "FILE", "help": "Who signs servers' certificates.  [PYROMQ_TLS_CA; the system's]"}),
    ("--tls-cert", {"metavar": "FILE", "help": "A certificate of our own to show.  [PYROMQ_TLS_CERT]"}),
    ("--tls-key", {"metavar": "FILE", "help": "Its key.  [PYROMQ_TLS_KEY]"}),
    (
        "--tls-verify",
        {
            "type": click.Choice(VERIFY),
            "help": "Check signer and name of a server, its signer, or nothing.  [PYROMQ_TLS_VERIFY; full]",
        },
    ),
)
_FIELDS = {"tls": "enabled", "tls_ca": "ca", "tls_cert": "certificate", "tls_key": "key", "tls_verify": "verify"}
_SPELLED = {field: "--" + name.replace("_", "-") for name, field in _FIELDS.items()}


def tls_options(command: F) -> F:
    """Add the TLS options; they arrive as tls, tls_ca ..., and `take` takes them all."""
    for spelling, how in reversed(OPTIONS):
        command = click.option(spelling, **how)(command)
    return command


def take(given: dict[str, Any]) -> TlsChoice:
    """Remove the TLS options from what a command was given, and return the choice."""
    from ...client.connect.tls_choice import from_words  # not at the top: --help needs no SDK

    values = {field: given.pop(name) for name, field in _FIELDS.items()}
    words = {field: str(value) for field, value in values.items() if value is not None}
    if values["enabled"] is False and len(words) > 1:
        raise click.UsageError(
            f"--no-tls leaves no use for {_SPELLED[next(name for name in words if name != 'enabled')]}"
        )
    return from_words(words, _SPELLED)
