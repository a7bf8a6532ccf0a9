"""Files on this machine, and stores that we do not read: RocksDB."""

from __future__ import annotations

from pathlib import Path

from ...protocol.headers.admin import ExportRocksdbConfig
from ...protocol.messages import UnreadableMessage, read_record
from ...protocol.record import RecordError, decode_record
from ...protocol.requests import RequestCode
from ..command import Failed, NotServed, Run, command
from ..messages.text import line_of
from ..options import may, need
from ..parsing import UsageError

KINDS = ("topics", "subscriptionGroups", "consumerOffsets")
ROCKSDB = "RocksDB's files are not read here. Apache's brokers export them: "


def _content(name: str) -> bytes:
    path = Path(name)
    if not path.exists():
        raise Failed(f"file {name} not exist.")
    if path.is_dir():
        raise Failed(f"file {name} is a directory.")
    return path.read_bytes()


@command("Messages of a compaction log file", may("f", "file", "the file"))
async def dump_compaction_log(run: Run) -> None:
    if "f" not in run:
        raise UsageError("miss dump log file name: -f")
    data = _content(run["f"])
    at = 0
    while at < len(data):
        try:
            record = decode_record(data, at)
        except RecordError as fault:
            if any(data[at:]):  # behind the last message the file is empty
                run.warn(f"ends at byte {at}: {fault}")
            return
        for message in read_record(data[at : at + record.size]):
            if isinstance(message, UnreadableMessage):
                run.warn(f"the record at byte {at} cannot be read: {message.fault}")
            run.say(line_of(message, "null"))
        at += record.size


@command(
    "Topics or groups out of RocksDB's files on this machine",
    may("j", "jsonEnable", "true: as JSON"),
    need("p", "path", "folder of the settings"),
    need("t", "configType", "topics or subscriptionGroups"),
    waits_for="a RocksDB store",
)
async def export_metadata_in_rocksdb(run: Run) -> None:
    raise NotServed(f"{ROCKSDB}mqadmin rocksDBConfigToJson -b BROKER -t {run['t']}")


@command(
    "Let brokers write their tables in RocksDB as JSON files",
    may("b", "brokerAddr", "the broker, host:port"),
    may("c", "cluster", "the cluster: masters and slaves"),
    may("e", "exportFile", "file for what is read on this machine, with -p"),
    may("j", "jsonEnable", "false: a line per entry, with -p"),
    may("n", "nameserverAddr", "name servers, host:port;host:port"),
    may("p", "configPath", "folder of RocksDB's files on this machine"),
    may("t", "configType", f"{', '.join(KINDS)}; default: all"),
    waits_for="a RocksDB store",
)
async def rocksdb_config_to_json(run: Run) -> None:
    kinds = [each.strip() for each in run.get("t", ";".join(KINDS)).replace(",", ";").split(";") if each.strip()]
    if wrong := [each for each in kinds if each not in KINDS]:
        raise UsageError(f"Invalid configType: {wrong[0]} please input {'/'.join(KINDS)}")
    if "c" in run:
        run.say("Use [rpc mode] call all brokers in cluster to export to json file ")
        addresses = [place.address for place in await run.cluster(run["c"])]
    elif "b" in run:
        run.say("Use [rpc mode] call broker to export to json file ")
        addresses = [run["b"]]
    elif "p" in run:
        raise NotServed(f"{ROCKSDB}mqadmin rocksDBConfigToJson -b BROKER -t {';'.join(kinds)}")
    else:
        raise UsageError("say whose: -b with a broker's address, or -c with a cluster's name")
    wanted = ExportRocksdbConfig(config_type="".join(f"{each};" for each in kinds))
    for address in addresses:
        await run.ask(address, RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, wanted)
    run.say("broker export done.")
