"""`pyromq dashboard`: a cluster in the browser, in the foreground until SIGTERM, SIGINT or SIGHUP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ..terminal.options import tls_options
from ..terminal.printing import print_lines
from ..terminal.tree import command

LOCAL = "local"  # the name of a cluster that was given none
DEFAULT_PORT = 8082


@command(
    "pyromq dashboard -n 127.0.0.1:9876",
    "pyromq dashboard -n prod=10.0.0.1:9876;10.0.0.2:9876 -n test=10.1.0.1:9876",
    "pyromq dashboard -n 127.0.0.1:9876 --listen 127.0.0.1:0 --base-path /mq",
)
@click.option(
    "-n",
    "--namesrv",
    "name_servers",
    metavar="[NAME=]HOST:PORT",
    multiple=True,
    help="Name servers of a cluster, several with ; between. Again for each cluster.  [127.0.0.1:9876]",
)
@click.option(
    "--listen",
    default=f"127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    metavar="HOST:PORT",
    help="Port 0 takes a free one.",
)
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="A further name under which browsers ask for it.")
@click.option("--base-path", "base", metavar="PATH", default="", help="Path before all pages, behind a proxy: /mq.")
@click.option(
    "--api-token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Tokens of programs for the API, a line each.",
)
@click.option("--read-only", is_flag=True, help="Only show: nobody changes anything by this dashboard.")
@click.option("--hide-bodies", is_flag=True, help="Show nobody the bodies of messages.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of its audit log, who changed what.  [~/pyromq-dashboard]",
)
@click.option("--insecure", is_flag=True, help="Allow an address other than loopback although it speaks HTTP.")
@tls_options
def dashboard(
    name_servers: tuple[str, ...],
    listen: str,
    hosts: tuple[str, ...],
    base: str,
    api_token_file: Path | None,
    insecure: bool,
    read_only: bool,
    hide_bodies: bool,
    state_dir: Path | None,
    **tls: Any,
) -> None:
    """Show clusters in a browser: how they are, their topics, groups and clients. Needs pyromq[dashboard]."""
    from ...transport import loop
    from ...transport.address import parse_address

    clusters: dict[str, str] = {}
    for text in name_servers or (os.environ.get("NAMESRV_ADDR") or "127.0.0.1:9876",):
        name, _, addresses = text.rpartition("=")
        name = name or LOCAL
        if name in clusters:
            raise click.BadParameter(f"two clusters are called {name}: give -n NAME=HOST:PORT", param_hint="-n")
        clusters[name] = addresses
    try:
        host, port = parse_address(listen)
    except ValueError as fault:
        raise click.BadParameter(str(fault), param_hint="--listen") from None
    own: dict[str, Any] = {
        "host": host,
        "port": port,
        "hosts": hosts,
        "base": base,
        "api_token_file": api_token_file,
        "insecure": insecure,
        "state_dir": state_dir or Path.home() / "pyromq-dashboard",
    }
    loop.run(_serve(clusters, own, {"read_only": read_only, "hide_bodies": hide_bodies}, tls))


async def _serve(clusters: dict[str, str], own: dict[str, Any], limits: dict[str, bool], tls: dict[str, Any]) -> None:
    from ...ambient import SystemClock, secret_word, system_random
    from ...client.config import ClientConfig, name_servers
    from ...dashboard.server import DashboardConfig, run
    from ...dashboard.web.site import SiteLimits
    from ..cluster.elected_sets import add_elected_state
    from ..terminal.options import take_tls
    from .stopping import stop_on_signals

    secured = take_tls(dict(tls)).settings()
    config = DashboardConfig(
        clusters={
            name: ClientConfig(
                name_servers=name_servers(addresses),
                tls=secured,
                access_key=os.environ.get("PYROMQ_ACCESS_KEY", ""),
                secret_key=os.environ.get("PYROMQ_SECRET_KEY", ""),
            )
            for name, addresses in clusters.items()
        },
        limits=SiteLimits(**limits),
        **own,
    )
    await run(
        config,
        clock=SystemClock(),
        rng=system_random(),
        word=secret_word,
        ready=lambda address: print_lines(f"pyromq dashboard ready on {address}"),
        announce=lambda link: print_lines(f"log in once with {link}"),
        stop_wanted=stop_on_signals(),
        read_elected=add_elected_state,
    )
