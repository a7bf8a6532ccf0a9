"""`pyromq up`: name server and broker in one process, with a data folder and no configuration.

With `--brokers N`: name server here, and so many brokers as processes of their own (`brokers.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from ...ambient import SystemClock, system_random
from ...broker import daemon as broker
from ...broker.config import BrokerConfig
from ...broker.java_keys import BROKER_KEYS
from ...config import Loaded
from ...kernel.choice import kernel_name
from ...machine.budget import Budget, budget_of_process
from ...model.foreign_text import shell_word
from ...namesrv import server as namesrv
from ...namesrv.config import NAMESRV_KEYS, NamesrvConfig
from ...transport import loop
from ...transport.address import ASK_EVERYBODY, format_address
from ...transport.certificates.self_signed import with_certificate
from ...transport.settings import TransportSettings
from ..terminal.called import as_called
from ..terminal.printing import print_text
from .brokers import BrokerHome, BrokerProcess, check_apart, check_single, places, run_brokers
from .replicas import etcd_beside, replica_homes
from .securing import SecuredFolder, check_not_secured, secured
from .setting_options import load_daemon
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
    "timer_max_delay_sec": 366 * 86_400,  # Java's broker and ours: three days
    "max_delay_time_mills": 366 * 86_400_000,  # the same over gRPC; Java's proxy and ours: one day
    "refuse_conflicting_subscriptions": True,
}

GUIDE = """\
PyroMQ is up. Name server {namesrv}, broker {broker} ({kernel} kernel), data in {data}.

  send and look:        pyromq pub orders hello -n {namesrv};  pyromq sub orders --from first -n {namesrv}
  Java, Go, C++, Node:  name server address {namesrv}
{grpc}  mqadmin:              mqadmin clusterList -n {namesrv}
  stop:                 Ctrl-C; start again with the same command, nothing is lost

Topics are made by the first send to them, but not by 5.x clients:
  pyromq topic create orders --type normal -n {namesrv}"""
GRPC = """\
  5.x clients (gRPC):   endpoints {address}
"""
OPEN = """\
Open to strangers, at {address}: {danger};
{cure}."""
SLAVES = """\
A send is answered once a slave has it too; consumers go on at the slave while its master is away:
  pyromq mqadmin haStatus -c {cluster} -n {namesrv}"""
REFUSES = """\
Unlike Java's broker, this one refuses a consumer that subscribes otherwise than its group
(refuseConflictingSubscriptions)."""

_MQADMIN = "mqadmin clusterList --profile {profile}"
_MQADMIN_KEYS = "PYROMQ_TLS_CA={ca} mqadmin ..., with the keys in $ROCKETMQ_HOME/conf/tools.yml"

# What a child of --brokers gets by the environment.
_VARIABLE = "PYROMQ_BROKER_{}"
_NAME_SERVERS = ("NAMESRV_ADDR", _VARIABLE.format("NAMESRV_ADDR"))


@click.command()
@click.option("--data", metavar="FOLDER", default="pyromq-data", show_default=True, help="Where data goes.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--advertise", metavar="HOST", help="Address that clients are told, if it is not the one listened on.")
@click.option("--namesrv-port", type=int, default=9876, show_default=True, help="0 takes a free one.")
@click.option("--broker-port", type=int, default=10911, show_default=True, help="0 takes a free one.")
@click.option(
    "--grpc-port",
    type=int,
    help="Of 5.x clients; 0 takes a free one, -1 opens none.  [8081, as far from it as the broker's from 10911]",
)
@click.option(
    "--brokers",
    type=int,
    metavar="N",
    help="So many brokers as one cluster, a process each: broker-0 and on, ports ten apart.  [1, in this process]",
)
@click.option(
    "--slaves",
    type=int,
    metavar="N",
    help="With --brokers: so many slaves of each, a process each. Sends wait for one, and slaves are read.  [0]",
)
@click.option(
    "--replicas",
    type=int,
    metavar="N",
    help="One broker as an elected set of so many replicas, a process each, which choose their master; needs etcd.",
)
@click.option("--etcd", metavar="URL", help="With --replicas: the etcd to use.  [one is started, in the data folder]")
@click.option("--secure", is_flag=True, help="Let in users alone, by TLS: makes them, certificates and a profile.")
@click.option("--insecure", is_flag=True, help="Allow an address other than loopback although there are no users.")
def up(
    data: str,
    host: str,
    advertise: str | None,
    brokers: int | None,
    slaves: int | None,
    replicas: int | None,
    etcd: str | None,
    secure: bool,
    insecure: bool,
    **ports: Any,
) -> None:
    """Run a name server and a broker, ready to use."""
    if slaves is not None and brokers is None:
        raise click.BadParameter("it needs --brokers: slaves are processes of their own", param_hint="--slaves")
    if replicas is not None and brokers is not None:
        raise click.BadParameter("it is one broker name: leave --brokers out", param_hint="--replicas")
    if etcd is not None and replicas is None:
        raise click.BadParameter("it needs --replicas: only an elected set uses etcd", param_hint="--etcd")
    if not data.strip():
        raise click.BadParameter("it is empty: name a folder, . for this one", param_hint="--data")
    folder = Path(data)
    if folder.exists() and not folder.is_dir():
        raise click.BadParameter(f"{data} is a file: name a folder", param_hint="--data")
    if secure and insecure:
        raise click.BadParameter("it is the opposite of --secure: give one of them", param_hint="--insecure")
    check_apart(folder)
    guarded = _secured(folder, (host, *([] if advertise is None else [advertise]))) if secure else None
    own: dict[str, Any] = {} if guarded is None else guarded.settings
    names = load_daemon(
        NamesrvConfig,
        NAMESRV_KEYS,
        "namesrv",
        {"bind_address": host, "listen_port": ports["namesrv_port"], "insecure": insecure}
        | {"kv_config_path": str(folder / "namesrv" / "kvConfig.json")}
        | own,
        spelled={"bind_address": "--host", "listen_port": "--namesrv-port", "kv_config_path": "--data"},
    )
    store = load_daemon(
        BrokerConfig,
        BROKER_KEYS,
        "broker",
        {
            "bind_address": host,
            "listen_port": ports["broker_port"],
            "broker_name": "broker-a",
            "broker_ip1": advertise,
            "grpc_server_port": 0 if ports["grpc_port"] is None and ports["broker_port"] == 0 else ports["grpc_port"],
        }
        | {"store_path_root_dir": str(folder / "store"), "insecure": insecure}
        | own,
        defaults=SMALL,
        spelled={"bind_address": "--host", "listen_port": "--broker-port", "grpc_server_port": "--grpc-port"}
        | {"broker_ip1": "--advertise"}
        | {"store_path_root_dir": "--data"},
    )
    if guarded is None:
        check_not_secured(folder)
    if brokers is None and replicas is None:
        check_single(folder)
        names, store = _with_one_certificate(names, store, folder)
        loop.run(serve(names, store, folder, guarded))
        return
    wanted = (host, ports["broker_port"], ports["grpc_port"])
    homes = [] if brokers is None else places(folder, brokers, *wanted, slaves or 0)
    if replicas is not None:
        replica_homes(folder, replicas, *wanted, "")  # refused before anything is started
    names, store = _with_one_certificate(names, store, folder)
    given = _as_variables(
        {"allow_unauthenticated": insecure or None, "broker_ip1": advertise}
        | {name: getattr(store.config, name) for name in ("tls_server_cert_path", "tls_server_key_path")}
        | own
        | ({} if guarded is None else {"ha_tls": "required"})
    )
    logging = click.get_current_context().find_root().meta.get("pyromq.logging", {})
    flags = [word for name, value in logging.items() for word in (f"--{name.replace('_', '-')}", value)]

    async def several(namesrv_address: str, stop_wanted: asyncio.Event) -> None:
        # A name server of the environment is another one than theirs, and no news to anybody.
        inherited = {name: value for name, value in os.environ.items() if name not in _NAME_SERVERS}
        clock, environment = SystemClock(), _as_variables(SMALL) | inherited | given
        async with AsyncExitStack() as stack:
            served = homes
            if replicas is not None:
                endpoints = await stack.enter_async_context(etcd_beside(etcd, folder, clock))
                served = replica_homes(folder, replicas, *wanted, endpoints)
            await run_brokers(
                [BrokerProcess(home, namesrv_address, flags, environment, clock) for home in served],
                lambda addresses: _welcome_all(namesrv_address, folder, store.config, served, addresses, guarded),
                stop_wanted,
            )

    loop.run(beside_name_server(names, store.config.advertised_host, several))


def _as_variables(settings: dict[str, Any]) -> dict[str, str]:
    """Return the settings as a broker's environment has them; None is one that is not given."""
    return {
        _VARIABLE.format(name.upper()): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
        if value is not None
    }


def _with_one_certificate(
    names: Loaded[NamesrvConfig], store: Loaded[BrokerConfig], folder: Path
) -> tuple[Loaded[NamesrvConfig], Loaded[BrokerConfig]]:
    """Give name server and brokers one self-signed certificate, so that clients need to trust one file only."""
    kept, hosts = folder / "tls", (store.config.advertised_host, store.config.bind_address)
    now_ms, transport = SystemClock().now_ms(), store.config.part(TransportSettings)
    return (
        with_certificate("namesrv", names, names.config, kept, hosts, now_ms),
        with_certificate("broker", store, transport, kept, hosts, now_ms),
    )


async def serve(
    names: Loaded[NamesrvConfig], store: Loaded[BrokerConfig], data: Path, guarded: SecuredFolder | None = None
) -> None:
    """Run name server and broker in this process; they share its descriptors."""
    config = store.config
    reserved = max(config.part(TransportSettings).reserved_descriptors, names.config.reserved_descriptors)
    budget = budget_of_process(queue_files=config.max_open_queue_files, reserved=reserved)
    budget.log_shares()

    async def one(namesrv_address: str, stop_wanted: asyncio.Event) -> None:
        known = Loaded(replace(config, namesrv_addr=(namesrv_address,)), store.findings)
        own: dict[str, Any] = {"clock": SystemClock(), "rng": system_random(), "budget": budget}
        grpc: list[str] = []
        ready = partial(_welcome, namesrv_address, data, config, grpc=grpc, guarded=guarded)
        await broker.run(known, ready=ready, grpc_ready=grpc.append, stop_wanted=stop_wanted, **own)

    await beside_name_server(names, config.advertised_host, one, budget)


async def beside_name_server(
    names: Loaded[NamesrvConfig],
    advertised: str,
    run: Callable[[str, asyncio.Event], Awaitable[None]],
    budget: Budget | None = None,
) -> None:
    """Start the name server first, since brokers need its port, and stop it last, so that they can unregister."""
    stop_wanted, stop_names = stop_on_signals(), asyncio.Event()
    running = asyncio.get_running_loop()
    address: asyncio.Future[str] = running.create_future()
    own: dict[str, Any] = {"clock": SystemClock(), "rng": system_random(), "budget": budget}
    name_server = running.create_task(namesrv.run(names, ready=address.set_result, stop_wanted=stop_names, **own))
    await asyncio.wait((name_server, address), return_when=asyncio.FIRST_COMPLETED)
    if name_server.done():
        name_server.result()
        return
    port = int(address.result().rpartition(":")[2])
    try:
        await run(format_address(advertised, port), stop_wanted)
    finally:
        stop_names.set()
        await name_server


def _welcome_all(
    namesrv_address: str,
    data: Path,
    config: BrokerConfig,
    homes: list[BrokerHome],
    addresses: list[str],
    guarded: SecuredFolder | None,
) -> None:
    """Say where several brokers are, each slave with its master."""
    copies = dict.fromkeys((home.name for home in homes), "")
    for home, address in zip(homes, addresses, strict=True):
        before = copies[home.name] and copies[home.name] + ", "  # another replica of an elected set
        copies[home.name] = f"{copies[home.name]} with slave {address}" if home.is_slave else before + address
    _welcome(namesrv_address, data, config, ", ".join(copies.values()), guarded=guarded)
    if any(home.is_slave for home in homes):
        print_text(as_called(SLAVES).format(namesrv=namesrv_address, cluster=config.broker_cluster_name))


def _secured(folder: Path, hosts: tuple[str, ...]) -> SecuredFolder:
    return secured(folder, hosts, SystemClock().now_ms())


def _welcome(
    namesrv_address: str,
    data: Path,
    config: BrokerConfig,
    brokers: str,
    grpc: Sequence[str] = (),
    guarded: SecuredFolder | None = None,
) -> None:
    shown = "".join(GRPC.format(address=address) for address in grpc)
    told = GUIDE.format(namesrv=namesrv_address, broker=brokers, kernel=kernel_name(), data=data, grpc=shown)
    if guarded is not None:  # whose commands need its keys
        profile = guarded.write_profile(namesrv_address)
        told = told.replace(f" -n {namesrv_address}", f" --profile {shell_word(profile)}")
        told = told.replace(_MQADMIN.format(profile=shell_word(profile)), _MQADMIN_KEYS.format(ca=guarded.ca))
    print_text(as_called(told))
    if not (config.is_loopback or config.access.authentication_enabled):
        danger = config.part(TransportSettings).danger_of_strangers
        print_text(as_called(OPEN.format(address=config.bind_address, danger=danger, cure=ASK_EVERYBODY)))
    if config.refuse_conflicting_subscriptions:
        print_text(REFUSES)
    if guarded is not None:
        print_text(as_called(guarded.guide))
