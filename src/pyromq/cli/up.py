"""`pyromq up`: name server and broker in one process, with a data folder and no configuration."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import click

from ..ambient import SystemClock, system_random
from ..broker import broker
from ..broker.config import BrokerConfig
from ..broker.java_keys import BROKER_KEYS
from ..config import Loaded, load
from ..namesrv import server as namesrv
from ..namesrv.config import NAMESRV_KEYS, NamesrvConfig
from ..transport import loop
from ..transport.address import format_address
from .stopping import stop_on_signals

# Small files: a folder to try things in should not take a gigabyte before the first message.
SMALL: dict[str, object] = {
    "commit_log_file_bytes": 64 << 20,
    "queue_file_bytes": 20 * 30_000,
    "index_slots": 100_000,
    "index_entries": 400_000,
    # Who tries things out should not have to look for switches.
    "enable_property_filter": True,
    "recall_message_enable": True,
    "trace_topic_enable": True,
}

GUIDE = """\
PyroMQ is up. Name server {namesrv}, broker {broker}, data in {data}.

  send and look:        pyromq pub orders hello -n {namesrv};  pyromq sub orders --from first -n {namesrv}
  Java, Go, C++, Node:  name server address {namesrv}
  mqadmin:              mqadmin clusterList -n {namesrv}
  stop:                 Ctrl-C; start again with the same command, nothing is lost

Topics are made by the first send to them."""


@click.command()
@click.option("--data", metavar="FOLDER", default="pyromq-data", show_default=True, help="Where data goes.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--advertise", metavar="HOST", help="Address that clients are told, if it is not the one listened on.")
@click.option("--namesrv-port", type=int, default=9876, show_default=True, help="0 takes a free one.")
@click.option("--broker-port", type=int, default=10911, show_default=True, help="0 takes a free one.")
@click.option("--insecure", is_flag=True, help="Allow an address other than loopback although there are no users.")
def up(data: str, host: str, advertise: str | None, namesrv_port: int, broker_port: int, insecure: bool) -> None:
    """Run a name server and a broker, ready to use."""
    if not data.strip():
        raise click.BadParameter("it is empty: name a folder, . for this one", param_hint="--data")
    folder = Path(data)
    names = load(
        NamesrvConfig,
        NAMESRV_KEYS,
        daemon="namesrv",
        environment=os.environ,
        flags={
            "bind_address": host,
            "listen_port": namesrv_port,
            "kv_config_path": str(folder / "namesrv" / "kvConfig.json"),
            "allow_unauthenticated": insecure or None,
        },
        overlay=lambda config: config.overlay_path,
        spelled={"bind_address": "--host", "listen_port": "--namesrv-port", "kv_config_path": "--data"},
    )
    store = load(
        BrokerConfig,
        BROKER_KEYS,
        daemon="broker",
        environment=os.environ,
        flags=_unless_told(SMALL)
        | {
            "bind_address": host,
            "listen_port": broker_port,
            "broker_name": "broker-a",
            "broker_ip1": advertise,
            "store_path_root_dir": str(folder / "store"),
            "allow_unauthenticated": insecure or None,
        },
        overlay=lambda config: config.overlay_path,
        spelled={
            "bind_address": "--host",
            "listen_port": "--broker-port",
            "broker_ip1": "--advertise",
            "store_path_root_dir": "--data",
        },
    )
    loop.run(serve(names, store, folder))


def _unless_told(defaults: dict[str, object]) -> dict[str, object]:
    """What people say in the environment goes before what `up` thinks best."""
    return {name: value for name, value in defaults.items() if f"PYROMQ_BROKER_{name.upper()}" not in os.environ}


async def serve(names: Loaded[NamesrvConfig], store: Loaded[BrokerConfig], data: Path) -> None:
    """The name server first, since the broker is told its port; it stops last, so that it hears the farewell."""
    stop_wanted, stop_names = stop_on_signals(), asyncio.Event()
    running = asyncio.get_running_loop()
    clock, rng = SystemClock(), system_random()
    address: asyncio.Future[str] = running.create_future()
    name_server = running.create_task(
        namesrv.run(names, clock=clock, rng=rng, ready=address.set_result, stop_wanted=stop_names)
    )
    await asyncio.wait((name_server, address), return_when=asyncio.FIRST_COMPLETED)
    if name_server.done():
        name_server.result()
        return
    port = int(address.result().rpartition(":")[2])
    listening = format_address(store.config.advertised_host, port)
    known = Loaded(replace(store.config, namesrv_addr=(listening,)), store.findings)

    def ready(broker_address: str) -> None:
        click.echo(GUIDE.format(namesrv=listening, broker=broker_address, data=data))

    try:
        await broker.run(known, clock=clock, rng=rng, ready=ready, stop_wanted=stop_wanted)
    finally:
        stop_names.set()
        await name_server
