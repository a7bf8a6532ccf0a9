"""Name servers: their key-value table, their settings, and whether brokers may be written."""

from __future__ import annotations

from ...admin import cluster, settings
from ...client.errors import Error
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..options import need
from ..printing import java_list, setting_lines

NAMESPACE = need("s", "namespace", "namespace of the key")
KEY = need("k", "key", "the key")
VALUE = need("v", "value", "its value")
BROKER_NAME = need("b", "brokerName", "name of the broker")


@command("Set a key of the name servers", KEY, NAMESPACE, VALUE)
async def update_kv_config(run: Run) -> None:
    await settings.kv_put(run.calls, run["s"], run["k"], run["v"])
    run.say("create or update kv config to namespace success.")


@command("Delete a key of the name servers", KEY, NAMESPACE)
async def delete_kv_config(run: Run) -> None:
    await settings.kv_delete(run.calls, run["s"], run["k"])
    run.say("delete kv config from namespace success.")


@command("Let nobody write to a broker any more: name servers tell clients so", BROKER_NAME)
async def wipe_write_perm(run: Run) -> None:
    await _change_perm(run, "wipe")


@command("Let clients write to a broker again", BROKER_NAME)
async def add_write_perm(run: Run) -> None:
    await _change_perm(run, "add")


async def _change_perm(run: Run, verb: str) -> None:
    faults = []
    for address in run.name_servers:
        place = f"{verb} write perm of broker[{run['b']}] in name server[{address}]"
        try:
            count = await cluster.let_be_written(run.calls, address, run["b"], may=verb == "add")
            run.say(f"{place} OK, {count}")
        except Error as fault:
            run.say(f"{place} Failed")
            faults.append(str(fault))
    if faults:
        raise Failed("; ".join(faults))


@command("Settings of the name servers")
async def get_namesrv_config(run: Run) -> None:
    for address in run.name_servers:
        found = await settings.fetch(run.calls, address, RequestCode.GET_NAMESRV_CONFIG)
        run.say(f"============{address}============", *setting_lines(found))


@command("Change a setting of the name servers", KEY, VALUE)
async def update_namesrv_config(run: Run) -> None:
    for address in run.name_servers:
        await settings.change(run.calls, address, RequestCode.UPDATE_NAMESRV_CONFIG, {run["k"]: run["v"]})
    run.say(f"update name server config success!{java_list(run.name_servers)}")
    run.say(f"{run['k']} : {run['v']}")
