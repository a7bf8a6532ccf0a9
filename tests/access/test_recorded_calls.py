"""Which gRPC calls of which users Apache's proxy 5.5.0 refused (tests/interop/decisions): ours refuses the same, and
more where docs/access.md says so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.access.matrix import ON, SUPER
from tests.access.matrix import SECRET as SUPERS
from tests.broker.running import running_broker
from tests.broker.test_grpc_port import ports
from tests.interop.decisions.record_calls import CALLS, decisions, make_users
from tests.interop.signing import Administrator

# Where ours refuses more: RocketMQ's proxy does not serve the first four, asks for no right in the fifth, and in the
# last for one to the group alone.
STRICTER = {
    *("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset"),
    *("SyncLiteSubscription", "ChangeInvisibleDuration"),
}


async def test_our_endpoint_refuses_what_apaches_proxy_refuses(tmp_path: Path) -> None:
    recorded = {(rpc, who): is_refused for rpc, who, is_refused in json.loads(CALLS.read_text("utf-8"))}
    async with running_broker(tmp_path, grpc_server_port=0, **ON) as running:
        await asyncio.to_thread(make_users, Administrator(running.address, SUPER, SUPERS))
        answers = await decisions(ports(running.broker)["grpc"])
    got = {(str(rpc), str(who)): bool(is_refused) for rpc, who, is_refused in answers}
    assert got.keys() == recorded.keys()
    different = {key for key in got if got[key] != recorded[key]}
    assert all(got[key] for key in different), f"we let in what RocketMQ refuses: {different}"
    assert {rpc for rpc, _ in different} == STRICTER, different
