"""Command-line options derived from a daemon's settings, so that a setting is declared once; and what they load.

    @click.command()
    @config_options(NamesrvConfig)
    def namesrv(config_file: Path | None, **flags: object) -> None:

Every option's default is None, which `config.load` takes as "not given". Used by the daemon commands alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from ...config import JavaKeys, Loaded, Setting, load, settings_of
from ...transport.address import parse_address
from ..terminal.options import together

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])


def config_options(config_class: type) -> Callable[[F], F]:
    """Add `-c FILE` and one option per setting that wants one; they arrive under the settings' field names."""

    return together(
        click.option(
            "-c",
            "--config",
            "config_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="TOML or RocketMQ .properties file.",
        ),
        *(_option(one) for one in settings_of(config_class).values() if one.flag),
    )


def listen_options(address: str) -> Callable[[F], F]:
    """Add --listen, which is this address unless it is given, and --insecure: `load_daemon` takes both."""
    return together(
        click.option(
            "--listen", metavar="HOST:PORT", help=f"Address to listen on; port 0 takes a free one.  [{address}]"
        ),
        click.option(
            "--insecure",
            is_flag=True,
            default=None,
            help="Allow an address other than loopback although there are no users.",
        ),
    )


def load_daemon(
    config_class: type[C], keys: JavaKeys, daemon: str, flags: dict[str, object], **sources: Any
) -> Loaded[C]:
    """Return a daemon's settings: of flags (by the settings' names, or as `listen_options` has them), environment, and
    what was changed while it ran."""
    if (listen := flags.pop("listen", None)) is not None:
        flags["bind_address"], flags["listen_port"] = parse_address(str(listen))
    flags["allow_unauthenticated"] = flags.pop("insecure", None) or None

    def overlay(config: Any) -> Path | None:
        return cast(Path | None, config.overlay_path)

    sources = {"environment": os.environ} | sources
    return load(config_class, keys, daemon=daemon, flags=flags, overlay=overlay, **sources)


def load_settings(
    config_class: type[C], keys: JavaKeys, daemon: str, flags: dict[str, object], **sources: Any
) -> Loaded[C]:
    """Return the settings of a daemon that does not listen, and so has none that change while it runs."""
    return load(config_class, keys, daemon=daemon, flags=flags, environment=os.environ, **sources)


def _option(setting: Setting) -> Callable[[F], F]:
    name = setting.name.replace("_", "-")
    spelling = f"--{name}/--no-{name}" if setting.kind is bool else f"--{name}"
    metavar = {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(setting.kind, "TEXT")
    if isinstance(setting.kind, type) and issubclass(setting.kind, Enum):
        metavar = "|".join(str(choice.value) for choice in setting.kind)
    return click.option(
        spelling,
        setting.name,
        default=None,
        type=bool if setting.kind is bool else str,  # text is judged by config.load, with the same words as a file's
        metavar=None if setting.kind is bool else metavar,
        help=f"{setting.help}  [{setting.java}; default {setting.render(setting.default) or 'none'}]",
    )
