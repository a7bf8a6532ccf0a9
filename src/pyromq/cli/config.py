"""`pyromq config`: what each key of a file would do, and which settings there are, without starting anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..config import JavaKeys, SettingFinding, check_file, settings_of
from ..text import tables
from .terminal.printing import columns, print_lines, to_json
from .terminal.tree import Tree, command


@click.group(cls=Tree)
def config() -> None:
    """Check configuration files, list settings."""


_WITHOUT_STORE = {"namesrv": "a name server", "proxy": "a proxy", "controller": "a controller"}
_daemon = click.option(
    "--daemon",
    type=click.Choice(["namesrv", "broker", "proxy", "controller"]),
    default="broker",
    show_default=True,
    help="Whose settings.",
)


@command("pyromq config list", "pyromq config list --daemon namesrv --json", of=config, name="list")
@_daemon
@click.option("--json", "as_json", is_flag=True, help="One JSON object per setting instead of a table.")
def list_settings(daemon: str, as_json: bool) -> None:
    """Print every setting: its name in TOML, its Java key, default, whether it can change while running."""
    rows = [
        {"setting": one.name, "java key": one.java, "default": one.render(one.default)}
        | {"live": "yes" if one.live else "no", "meaning": one.help}
        for one in settings_of(_tables(daemon)[0]).values()
    ]
    if as_json:
        print_lines(*map(to_json, rows))
    else:
        print_lines(f"settings of {daemon}", *tables.lines(rows, columns()))


@command("pyromq config check broker.conf", "pyromq config check rmq-proxy.json --daemon proxy", of=config)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_daemon
@click.option("--insecure", is_flag=True, help="Check as for a daemon that is started with --insecure.")
@click.option("--store-path-root-dir", metavar="PATH", help="The same for this option of a broker.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per key instead of a table.")
def check(file: Path, daemon: str, insecure: bool, store_path_root_dir: str | None, as_json: bool) -> None:
    """Print what each key of FILE would do. Exit code 1 if the daemon would not start with it.

    Certificates and keys that FILE names are loaded as by the daemon. What flags of the daemon's command say counts
    too: name them here as there."""
    if store_path_root_dir is not None and daemon != "broker":
        raise click.UsageError(f"--store-path-root-dir: {_WITHOUT_STORE[daemon]} has no store")
    flags = {"allow_unauthenticated": insecure or None, "store_path_root_dir": store_path_root_dir}
    findings = check_file(file, *_tables(daemon), flags, _check_whole)
    if as_json:
        for one in findings:
            entry = {"where": one.where, "key": one.key, "value": one.shown, "effect": one.effect, "error": one.error}
            print_lines(to_json(entry))
    else:
        _print_table(file, findings)
    if any(one.error for one in findings):
        sys.exit(1)


def _tables(daemon: str) -> tuple[type, JavaKeys]:
    if daemon == "broker":
        from ..broker.config import BrokerConfig
        from ..broker.java_keys import BROKER_KEYS

        return BrokerConfig, BROKER_KEYS
    if daemon == "proxy":
        from ..gateway.config import GatewayConfig
        from ..gateway.java_keys import GATEWAY_KEYS

        return GatewayConfig, GATEWAY_KEYS
    if daemon == "controller":
        from ..controller.config import CONTROLLER_KEYS, ControllerConfig

        return ControllerConfig, CONTROLLER_KEYS
    from ..namesrv.config import NAMESRV_KEYS, NamesrvConfig

    return NamesrvConfig, NAMESRV_KEYS


def _check_whole(config: Any) -> None:
    from ..broker.config import BrokerConfig
    from ..transport.settings import TransportSettings

    (config if isinstance(config, TransportSettings) else config.part(TransportSettings)).check_tls()
    if isinstance(config, BrokerConfig):
        config.check_daemon()


def _print_table(file: Path, findings: list[SettingFinding]) -> None:
    rows = [
        {
            "line": one.where.removeprefix(str(file)).rpartition(" ")[2],
            "key": one.key,
            "value": one.shown,
            "ok": one.error is None,
        }
        | {"effect": one.error or one.effect}
        for one in findings
    ]
    print_lines(str(file), *tables.lines(rows, columns()))
    errors = sum(one.error is not None for one in findings)
    print_lines(f"{len(findings)} keys, {errors} errors")
