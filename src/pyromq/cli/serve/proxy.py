"""`pyromq proxy`: run the gRPC endpoint before a cluster, in the foreground until SIGTERM, SIGINT or SIGHUP."""

from __future__ import annotations

from pathlib import Path

import click

from ...ambient import SystemClock, system_random
from ...config import Loaded
from ...gateway.config import GatewayConfig
from ...gateway.java_keys import GATEWAY_KEYS
from ...gateway.server import run
from ...transport import loop
from ..terminal.printing import print_lines
from ..terminal.tree import command
from .setting_options import config_options, listen_options, load_daemon
from .stopping import stop_on_signals


@command("pyromq proxy -n 127.0.0.1:9876", "pyromq proxy -n 10.0.0.1:9876 --listen 127.0.0.1:8081 --shares-its-port")
@click.option("-n", "--namesrv", metavar="HOST:PORT", help="Name servers, separated by ;  [namesrvAddr]")
@listen_options("127.0.0.1:8081")
@config_options(GatewayConfig)
def proxy(namesrv: str | None, config_file: Path | None, **flags: object) -> None:
    """Run the endpoint of 5.x clients (gRPC) before a cluster."""
    spelled = {}
    if namesrv is not None:
        flags["namesrv_addr"], spelled["namesrv_addr"] = namesrv, "-n"
    sources = {"file": config_file, "spelled": spelled, "java_variables": {"NAMESRV_ADDR": "namesrv_addr"}}
    loop.run(serve(load_daemon(GatewayConfig, GATEWAY_KEYS, "proxy", flags, **sources)))


async def serve(loaded: Loaded[GatewayConfig]) -> None:
    await run(loaded, clock=SystemClock(), rng=system_random(), ready=say_ready, stop_wanted=stop_on_signals())


def say_ready(address: str, remoting: str) -> None:
    # echo flushes: who started us waits for this line
    print_lines(f"pyromq proxy ready on {address}", f"remoting clients on {remoting}")
