"""Signed and authorised requests beside a broker that asks nobody: `python -m bench.access [--runs 3] [--java]`.

Our broker twice, once with authentication and authorisation on, 1,000 users and 10,000 policies, and Java's 5.5.0 with
the same. Sends, pulls and pops at 4 x 16 in turns, and gRPC sends of our brokers; the generator signs each request as
clients do, and so takes some of the same cores. Then, of the secured broker alone: the first request of a connection,
and a change of policies to the first request that it refuses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.measure.compiled import compiled  # noqa: E402
from bench.results import heading, note, number  # noqa: E402
from bench.servers import Server, alone, built, has_java, java_broker, our_broker, scratch  # noqa: E402

from pyromq.access.signatures import Signer  # noqa: E402
from pyromq.ambient import SystemClock, system_random  # noqa: E402
from pyromq.protocol.command import Command  # noqa: E402
from pyromq.transport.client import RemotingClient  # noqa: E402

BOSS, SHOP, SECRET = "boss", "user-500", "a secret of the bench"
USERS, ENTRIES = 1000, 10
BODY = "x" * 126
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": BOSS, "password": SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": SECRET}),
}
AUTH = "org.apache.rocketmq.auth"
JAVAS = {
    "authenticationMetadataProvider": f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}
ROWS = {  # the program and its options; {turn} makes a group of its own
    "send": ("mqload", "send -t Bench -c 4 -w 16 -s 128 -q 4 -d {seconds}"),
    "pull": ("mqload", "drain -t Fill -g pulls-{turn} -q 4 -n 32 -d {seconds}"),
    "pop": ("popload", "drain -t Fill -g pops-{turn} -c 4 -w 16 -n 32 -A 1 -i 60000 -d {seconds}"),
    "grpc-send": ("grpcload", "send -t Bench -c 4 -w 16 -s 128 -d {seconds}"),
}
FILL = "send -t Fill -c 4 -w 4 -B 32 -s 128 -q 4 -N 300000 -d 60"


@contextmanager
def secured(folder: Path) -> Iterator[Server]:
    names = {
        "AUTHENTICATION_ENABLED": SETTINGS["authenticationEnabled"],
        "AUTHORIZATION_ENABLED": SETTINGS["authorizationEnabled"],
        "INIT_AUTHENTICATION_USER": SETTINGS["initAuthenticationUser"],
    }
    with ExitStack() as stack:
        for name, value in names.items():
            os.environ[f"PYROMQ_BROKER_{name}"] = value
        try:
            server = stack.enter_context(our_broker(folder))
        finally:
            for name in names:
                del os.environ[f"PYROMQ_BROKER_{name}"]
        yield server._replace(name="ours, secured")


def client() -> RemotingClient:
    return RemotingClient(clock=SystemClock(), rng=system_random())


def by(name: str, code: int, fields: dict[str, str], body: object = None) -> Command:
    command = Command(code=code, fields=dict(fields), body=b"" if body is None else json.dumps(body).encode())
    Signer(name, SECRET).sign(command)
    return command


def rules(number: int) -> list[dict[str, Any]]:
    resources = [f"Topic:orders-{number}-{each}" for each in range(ENTRIES)]
    if f"user-{number}" == SHOP:
        resources = ["Topic:Bench", "Topic:Fill", "Topic:Warm", "Group:*", *resources[4:]]
    actions = ["Pub", "Sub", "Get"]  # Get: pulls begin with a look where queues begin and end
    entries = [{"resource": one, "actions": actions, "decision": "Allow"} for one in resources]
    return [{"policyType": "Custom", "entries": entries}]


async def make_users(server: Server) -> None:
    talks, at_once = client(), asyncio.Semaphore(32)

    async def make(number: int) -> None:
        name = f"user-{number}"
        acl = {"subject": f"User:{name}", "policies": rules(number)}
        user = {"username": name, "password": SECRET, "userType": "Normal"}
        async with at_once:
            for code, fields, body in ((3001, {"username": name}, user), (3006, {"subject": f"User:{name}"}, acl)):
                answer = await talks.call(server.address, by(BOSS, code, fields, body), 60)
                if answer.code:
                    raise SystemExit(f"{server.name} does not take user {name}: {answer.code} {answer.remark}")

    await make(0)
    await asyncio.gather(*(make(number) for number in range(1, USERS)))
    await talks.close()


async def make_topics(server: Server) -> None:
    talks = client()
    for topic in ("Bench", "Fill", "Warm"):
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
        fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        answer = await talks.call(server.address, by(BOSS, 17, fields), 20)
        if answer.code:
            raise SystemExit(f"{server.name} does not make {topic}: {answer.code} {answer.remark}")
    await talks.close()


def run(program: Path, options: str, server: Server) -> dict[str, Any]:
    signed = ["-u", SHOP, "-k", SECRET] if "secured" in server.name else []
    before = server.cpu_s()
    command = [str(program), *options.split(), "-a", server.address, *signed]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip() or 'no word'}")
    found: dict[str, Any] = json.loads(done.stdout)
    found["cpu_us"] = (server.cpu_s() - before) * 1e6 / max(1, found["messages"] or found.get("calls", 0))
    if "errors" not in found:  # of gRPC calls
        found["errors"] = found["codes"] + found["statuses"]
    return found


def show(row: str, found: dict[str, list[dict[str, Any]]]) -> None:
    def middle(server: str, key: str) -> float:
        return float(statistics.median(one[key] for one in found[server]))

    heading(f"{row} at 4 x 16, {USERS:,} users, {USERS * ENTRIES:,} policies", "python -m bench.access")
    print(
        "| server | msg/s | of ours without | CPU us a message | of ours without | refused |\n|---|---|---|---|---|---|"
    )
    for server in found:
        rate, spent = middle(server, "rate"), middle(server, "cpu_us")
        print(
            f"| {server} | {number(rate)} | {rate / middle('ours', 'rate'):.2f} | {number(spent)} "
            f"| {spent / middle('ours', 'cpu_us'):.2f} | {sum(one['errors'] for one in found[server])} |"
        )


async def changes(server: Server, times: int) -> dict[str, list[float]]:
    """Milliseconds of the first signed send of a connection, and from a change of policies to its first refusal."""
    fields = {"a": "P", "b": "Bench", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    fields |= {"i": "UNIQ_KEY\x01U\x02", "j": "0", "k": "false", "m": "false"}
    found: dict[str, list[float]] = {"first request of a connection, ms": [], "policy change to its effect, ms": []}
    boss = client()
    for _ in range(times):
        talks = client()
        begun = time.perf_counter()
        answer = await talks.call(server.address, by(SHOP, 310, fields, BODY), 10)
        found["first request of a connection, ms"].append((time.perf_counter() - begun) * 1000)
        assert answer.code == 0, answer.remark
        subject = {"subject": f"User:{SHOP}", "resource": "Topic:Bench", "policyType": "Custom"}
        begun = time.perf_counter()
        removed = await boss.call(server.address, by(BOSS, 3008, subject), 10)
        assert removed.code == 0, removed.remark
        while (await talks.call(server.address, by(SHOP, 310, fields, BODY), 10)).code != 16:
            pass
        found["policy change to its effect, ms"].append((time.perf_counter() - begun) * 1000)
        acl = {"subject": f"User:{SHOP}", "policies": rules(500)}
        await boss.call(server.address, by(BOSS, 3007, {"subject": f"User:{SHOP}"}, acl), 10)
        await talks.close()
    await boss.close()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=float, default=2)
    options.add_argument("--java", action="store_true", help="Java's broker with the same on, too")
    options.add_argument("--folder", help="where stores go")
    options.add_argument("--json", help="append the figures to this file")
    chosen = options.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(chosen.folder))
        programs = {name: built(folder, name) for name in ("mqload", "popload")}
        programs["grpcload"] = compiled(ROOT / "bench" / "grpcload.c", folder, "-lnghttp2")
        servers = [stack.enter_context(our_broker(folder / "open")), stack.enter_context(secured(folder / "secured"))]
        if chosen.java and has_java():
            java = stack.enter_context(java_broker(folder / "java", **SETTINGS, **JAVAS, timerWheelEnable="true"))
            servers.append(java._replace(name="java, secured"))
        for server in servers:
            if "secured" in server.name:
                asyncio.run(make_users(server))
            asyncio.run(make_topics(server))
            run(programs["mqload"], FILL, server)
            run(
                programs["mqload"],
                f"send -t Warm -c 4 -w 16 -s 128 -q 4 -d {15 if 'java' in server.name else 1}",
                server,
            )
        found: dict[str, dict[str, list[dict[str, Any]]]] = {row: {} for row in ROWS}
        for turn in range(chosen.runs):
            for row, (program, words) in ROWS.items():
                for server in servers:
                    if program == "grpcload" and "java" in server.name:
                        continue  # its gRPC is another process
                    with alone(server, servers):
                        done = run(programs[program], words.format(turn=turn, seconds=chosen.seconds), server)
                    found[row].setdefault(server.name, []).append(done)
        for row, by_server in found.items():
            show(row, by_server)
            for name, runs in by_server.items():
                note(chosen.json, f"access-{row}", name, runs)
        for what, times in asyncio.run(changes(servers[1], 20)).items():
            print(f"\n{what}: median {number(statistics.median(times))}, most {number(max(times))}")


if __name__ == "__main__":
    main()
