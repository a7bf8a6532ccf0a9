"""Command-line options derived from a daemon's settings, so that a setting is declared once.

    @click.command()
    @config_options(NamesrvConfig)
    def namesrv(config_file: Path | None, **flags: object) -> None:

Every option's default is None, which `config.load` takes as "not given". Used by the daemon commands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import click

from ...config import Setting, settings_of

F = TypeVar("F", bound=Callable[..., Any])


def config_options(config_class: type) -> Callable[[F], F]:
    """Add `-c FILE` and one option per setting that wants one; they arrive under the settings' field names."""

    def decorate(command: F) -> F:
        for setting in reversed([one for one in settings_of(config_class).values() if one.flag]):
            command = _option(setting)(command)
        return click.option(
            "-c",
            "--config",
            "config_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="TOML or RocketMQ .properties file.",
        )(command)

    return decorate


def _option(setting: Setting) -> Callable[[F], F]:
    name = setting.name.replace("_", "-")
    spelling = f"--{name}/--no-{name}" if setting.kind is bool else f"--{name}"
    return click.option(
        spelling,
        setting.name,
        default=None,
        type=bool if setting.kind is bool else str,  # text is judged by config.load, with the same words as a file's
        metavar=None if setting.kind is bool else _metavar(setting),
        help=f"{setting.help}  [{setting.java}; default {setting.render(setting.default) or 'none'}]",
    )


def _metavar(setting: Setting) -> str:
    if isinstance(setting.kind, type) and issubclass(setting.kind, Enum):
        return "|".join(str(choice.value) for choice in setting.kind)
    return {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(setting.kind, "TEXT")
