"""`pyromq config check`: what each key of a configuration file would do, without starting anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ..config import Finding, JavaKeys, examine_file, load
from ..errors import ConfigError


@click.group()
def config() -> None:
    """Check configuration files."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--daemon", type=click.Choice(["namesrv", "broker"]), required=True, help="Whose file it is.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per key instead of a table.")
def check(file: Path, daemon: str, as_json: bool) -> None:
    """Print what each key of FILE would do. Exit code 1 if the daemon would not start with it."""
    config_class, keys = _tables(daemon)
    findings = examine_file(file, config_class, keys)
    if as_json:
        _print_json(findings)
    else:
        _print_table(file, findings)
    if any(one.error for one in findings):
        sys.exit(1)
    try:
        load(config_class, keys, daemon=daemon, file=file)  # what concerns several settings at once
    except ConfigError as fault:
        click.echo(f"{file}: {fault}", err=True)
        sys.exit(1)


def _tables(daemon: str) -> tuple[type, JavaKeys]:
    if daemon == "broker":
        from ..broker.config import BrokerConfig
        from ..broker.java_keys import BROKER_KEYS

        return BrokerConfig, BROKER_KEYS
    from ..namesrv.config import NAMESRV_KEYS, NamesrvConfig

    return NamesrvConfig, NAMESRV_KEYS


def _print_json(findings: list[Finding]) -> None:
    for one in findings:
        entry = {"where": one.where, "key": one.key, "value": one.value, "effect": one.effect, "error": one.error}
        click.echo(json.dumps(entry, ensure_ascii=False))


def _print_table(file: Path, findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=str(file), title_justify="left")
    for heading in ("line", "key", "value", "effect"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "line" else "left")
    for one in findings:
        line = one.where.rpartition(" ")[2]
        effect = Text(one.error, style="red") if one.error else Text(one.effect)
        table.add_row(line, Text(one.key), Text(one.value), effect)
    Console().print(table)
    errors = sum(one.error is not None for one in findings)
    click.echo(f"{len(findings)} keys, {errors} errors")
