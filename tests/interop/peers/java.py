"""Apache RocketMQ's own programs, unmodified, by published version: name server, broker, client and mqadmin.

The jars come from Maven Central once (see cache.py). The small applications in tests/interop/java are ours; they are
compiled against the jars of the version under test. Everything a program writes goes to the home folder it is given.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from . import cache
from .process import Program, ProgramFailed, answer_of

SERVERS = ("5.5.0", "5.3.3")  # complete versions: name server, broker, tools, client
CLIENTS = (*SERVERS, "4.9.8")
OLD_CLIENTS = ("4.5.2", "4.9.3")  # up to 4.9.3 they add a field to what they have signed
SERVER_PARTS, CLIENT_PARTS = ("broker", "namesrv", "tools"), ("client", "tools")
SOURCES = Path(__file__).resolve().parent.parent / "java"

# Java 17 hides what the store and netty reach for; these are the flags of RocketMQ's own start scripts.
OPENS = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "sun.nio.ch", "java.lang", "java.util")),
]
_NOISE = re.compile(r"\t(at |\.\.\. )|[\d:,]+ \|-(INFO|WARN) in ")

# For tests: quick to start and small. A benchmark passes its own.
QUICK = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

# Small files, so that a broker is ready in seconds and needs little disk.
QUICK_BROKER: dict[str, str] = {
    "mappedFileSizeCommitLog": str(16 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 1000),
    "mappedFileSizeTimerLog": str(100 * 1024),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "diskMaxUsedSpaceRatio": "99",
    "timerWheelEnable": "false",
    "traceTopicEnable": "false",
}


def runtime() -> str:
    """The `java` command."""
    return cache.tool("java", "openjdk-17-jre-headless")


def jars(version: str) -> Path:
    """The folder with the jars of one version, fetched by Maven at the first call."""
    return fetched(f"java-{version}", version, CLIENT_PARTS if version not in SERVERS else SERVER_PARTS)


def fetched(name: str, version: str, artifacts: Sequence[str]) -> Path:
    """The folder with the jars of these artifacts and of what they need, as one entry of the cache."""

    def build(folder: Path) -> None:
        (folder / "pom.xml").write_text(_pom(version, artifacts))
        maven = cache.tool("mvn", "maven openjdk-17-jdk-headless")
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        _run_build(command, folder, f"Maven could not fetch RocketMQ {version}")

    return cache.once(name, build) / "lib"


def classes(version: str, names: Sequence[str] = ()) -> Path:
    """Our small Java applications, all or those named, compiled against the jars of one version."""
    sources = [SOURCES / f"{name}.java" for name in names] or sorted(SOURCES.glob("*.java"))
    content = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    library = jars(version)

    def build(folder: Path) -> None:
        command = [cache.tool("javac", "openjdk-17-jdk-headless"), "-nowarn", "-cp", f"{library}/*", "-d", str(folder)]
        _run_build([*command, *map(str, sources)], folder, f"javac failed against RocketMQ {version}")

    return cache.once(f"java-{version}-programs-{content}", build)


def _run_build(command: Sequence[str], folder: Path, what: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise cache.PeerMissing(f"{what}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _pom(version: str, artifacts: Sequence[str]) -> str:
    dependencies = "".join(
        "<dependency><groupId>org.apache.rocketmq</groupId>"
        f"<artifactId>rocketmq-{artifact}</artifactId><version>{version}</version></dependency>"
        for artifact in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>pyromq</groupId><artifactId>peers</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def start(
    version: str,
    main: str,
    arguments: Sequence[str | Path] = (),
    *,
    home: Path,
    jvm: Sequence[str] = QUICK,
    env: Mapping[str, str] | None = None,
    programs: bool | Sequence[str] = False,
) -> Program:
    """A JVM with the jars of one version; `programs` adds our small applications to its class path, or some of them."""
    home.mkdir(parents=True, exist_ok=True)
    path = [f"{jars(version)}/*"]
    if programs:
        path.append(str(classes(version, () if programs is True else programs)))
    command = [
        runtime(),
        *OPENS,
        *jvm,
        f"-Duser.home={home}",
        f"-Djava.io.tmpdir={home}",
        f"-Drocketmq.client.logRoot={home}/logs",
        "-cp",
        ":".join(path),
        main,
        *arguments,
    ]
    return Program(command, name=f"{main.rsplit('.', 1)[-1]} {version}", env=_environment(home, env), cwd=home)


def _environment(home: Path, extra: Mapping[str, str] | None) -> dict[str, str]:
    return {"HOME": str(home), "ROCKETMQ_HOME": str(home), "NAMESRV_ADDR": "", **(extra or {})}


def _write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


class NameServer:
    """Java's name server on a free loopback port, ready when constructed."""

    def __init__(
        self,
        version: str,
        home: Path,
        settings: Mapping[str, str] | None = None,
        *,
        jvm: Sequence[str] = QUICK,
        env: Mapping[str, str] | None = None,
    ) -> None:
        merged = {
            "listenPort": "0",
            "bindAddress": "127.0.0.1",
            "kvConfigPath": str(home / "namesrv" / "kvConfig.json"),
            "configStorePath": str(home / "namesrv" / "namesrv.properties"),
            **(settings or {}),
        }
        conf = _write_properties(home / "conf" / "namesrv.conf", merged)
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self.program = start(version, main, ["-c", conf], home=home, jvm=jvm, env=env)
        ready = self.program.wait_for(r"Name Server boot success.*address [^:]*:(\d+)")
        self.address = f"127.0.0.1:{ready[1]}"

    def kill(self) -> None:
        self.program.kill()


class Controller:
    """Java's controller on a loopback port: it listens when constructed. Alone in its group it leads soon.

    `group`: the addresses of all controllers of its group, `number`: which of them it is."""

    def __init__(
        self,
        version: str,
        home: Path,
        settings: Mapping[str, str] | None = None,
        *,
        group: Sequence[str] = (),
        number: int = 0,
    ) -> None:
        group = group or (f"127.0.0.1:{free_broker_port()}",)
        self.address = group[number]
        merged = {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": ";".join(f"n{at}-{one}" for at, one in enumerate(group)),  # for brokers too
            "controllerDLegerSelfId": f"n{number}",
            "controllerStorePath": str(home / "controller"),
            "mappedFileSize": str(1 << 20),
            **(settings or {}),
        }
        conf = _write_properties(home / "conf" / "controller.conf", merged)
        main = "org.apache.rocketmq.controller.ControllerStartup"
        self.program = start(version, main, ["-c", conf], home=home)
        self.program.wait_for(r"The Controller Server boot success")

    def kill(self) -> None:
        self.program.kill()


class Broker:
    """Java's broker, ready when constructed: it listens, and has tried to register with its name servers."""

    def __init__(
        self,
        version: str,
        home: Path,
        name_servers: Sequence[str],
        settings: Mapping[str, str] | None = None,
        *,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        jvm: Sequence[str] = QUICK,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.home = home
        self._settings = {
            "brokerClusterName": cluster,
            "brokerName": name,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "namesrvAddr": ";".join(name_servers),
            "storePathRootDir": str(home / "store"),
            "storePathCommitLog": str(home / "store" / "commitlog"),
            **QUICK_BROKER,
            **(settings or {}),
        }
        self._jvm, self._env = jvm, env
        self.restart(free_broker_port())

    def restart(self, port: int) -> None:
        """On the same store, after `kill`."""
        self.address = f"127.0.0.1:{port}"
        conf = _write_properties(self.home / "conf" / "broker.conf", self._settings | {"listenPort": str(port)})
        main = "org.apache.rocketmq.broker.BrokerStartup"
        self.program = start(self.version, main, ["-c", conf], home=self.home, jvm=self._jvm, env=self._env)
        try:
            self.program.wait_for(r"The broker\[.*\] boot success")
        except ProgramFailed:
            self.program.kill()
            raise

    def kill(self) -> None:
        """kill -9. A clean stop takes Java 20 s and more, and nothing here needs the store afterwards."""
        self.program.kill()


class Conversation:
    """A running small application of ours: a line in, a marked JSON line out."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ready: str = answer_of(program)

    def ask(self, *words: str, timeout_s: float = 60.0) -> Any:
        position = self.program.write_line("\t".join(words))
        return answer_of(self.program, after=position, timeout_s=timeout_s)

    def kill(self) -> None:
        self.program.kill()


class Client(Conversation):
    """Producer and consumer over the published client jar of one version (tests/interop/java/Client.java)."""

    def __init__(
        self, version: str, home: Path, *, binary_headers: bool = False, jvm: Sequence[str] = QUICK, tls: bool = False
    ) -> None:
        env = {"ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ" if binary_headers else "JSON"}
        options = [*jvm, f"-Dtls.enable={str(tls).lower()}"]
        super().__init__(start(version, "Client", home=home, jvm=options, env=env, programs=True))
        if self.ready != env["ROCKETMQ_SERIALIZE_TYPE"]:
            raise ProgramFailed(f"the client speaks {self.ready} headers, asked was {env['ROCKETMQ_SERIALIZE_TYPE']}")

    def send(self, name_server: str, topic: str, count: int, prefix: str) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = self.ask("send", name_server, topic, str(count), prefix)
        return sent

    def consume(self, name_server: str, topic: str, group: str, count: int, limit_s: float = 30.0) -> list[str]:
        """The bodies, as soon as `count` have arrived; fewer if the limit passes first."""
        words = ("consume", name_server, topic, group, str(count), str(int(limit_s * 1000)))
        bodies: list[str] = self.ask(*words, timeout_s=limit_s + 30)
        return bodies

    def queues(self, name_server: str, topic: str) -> list[str]:
        """`broker:queue` of every queue that a producer would choose from."""
        names: list[str] = self.ask("queues", name_server, topic)
        return names

    def do(self, command: str, **fields: Any) -> Any:
        """A command with named fields; Client.act in Client.java lists them."""
        return self.ask(json.dumps({"do": command, **fields}))

    def send_by(self, how: str, servers: str, topic: str, bodies: Sequence[str], **more: str) -> list[dict[str, Any]]:
        """how: sync, async, oneway, batch or selector."""
        wanted = {"servers": servers, "topic": topic, "tag": "TagA", "bodies": list(bodies), **more}
        sent: list[dict[str, Any]] = self.do("send", how=how, **wanted)
        return sent

    def sending(self, servers: str, topic: str, prefix: str) -> Sending:
        """A producer that sends on and on: prefix0, prefix1 ..."""
        return Sending(self, servers, topic, prefix)

    def transacting(self, servers: str, topic: str, group: str, **more: str) -> Transacting:
        """A producer of transactional messages; `trace` names a topic for its traces."""
        return Transacting(self, servers, topic, group, **more)

    def request(self, servers: str, topic: str, bodies: Sequence[str], limit_ms: int = 10_000) -> list[str]:
        """Ask, and wait for the answer to each; "timed out" where none came."""
        answers: list[str] = self.do("ask", servers=servers, topic=topic, bodies=list(bodies), limit=limit_ms)
        return answers

    def answering(self, servers: str, topic: str, group: str, after_ms: int = 0) -> Answering:
        """A consumer that answers each message with "re: " and its body; "silence" is not answered."""
        return Answering(self, servers, topic, group, after_ms)

    def consuming(self, kind: str, servers: str, topic: str, group: str, **more: str | int) -> Consuming:
        """A running consumer. kind: push, orderly, broadcast, assigned or lite; `start`: first, last or ms; `tags`."""
        return Consuming(self, kind, {"servers": servers, "topic": topic, "group": group, **more})


_names = itertools.count(1)


class Sending:
    """A producer in a Java client that sends one message after the other until it is stopped."""

    def __init__(self, client: Client, servers: str, topic: str, prefix: str) -> None:
        self._client = client
        self._name = f"producer{next(_names)}"
        client.do("send on", name=self._name, servers=servers, topic=topic, prefix=prefix, tag="TagA")

    def acknowledged(self) -> list[str]:
        """The bodies that the broker has answered for with SEND_OK."""
        bodies: list[str] = self._client.do("acknowledged", name=self._name)
        return bodies

    def stop(self) -> list[str]:
        bodies: list[str] = self._client.do("stop sending", name=self._name)
        return bodies


class Transacting:
    """A producer of transactions in a Java client. A body is its fate: `commit 7`, `unknown rollback 8`."""

    def __init__(self, client: Client, servers: str, topic: str, group: str, **more: str) -> None:
        self._client = client
        self._name = f"transacting{next(_names)}"
        client.do("transact", name=self._name, servers=servers, topic=topic, group=group, **more)

    def send(self, *bodies: str, **properties: str) -> list[dict[str, Any]]:
        wanted = {"bodies": list(bodies), "properties": properties}
        sent: list[dict[str, Any]] = self._client.do("send halves", name=self._name, **wanted)
        return sent

    def checks(self) -> list[dict[str, Any]]:
        """What the broker has asked about: body, topic, transaction, times."""
        found: list[dict[str, Any]] = self._client.do("checks", name=self._name)
        return found

    def stop(self) -> None:
        self._client.do("stop transacting", name=self._name)


class Answering:
    """A consumer in a Java client that replies to requests. A context manager, which stops it."""

    def __init__(self, client: Client, servers: str, topic: str, group: str, after_ms: int) -> None:
        self._client = client
        self._name = f"answering{next(_names)}"
        wanted = {"servers": servers, "topic": topic, "group": group, "after": after_ms}
        client.do("answer", name=self._name, **wanted)

    def outcomes(self) -> list[str]:
        """How the sends of its replies ended."""
        found: list[str] = self._client.do("outcomes", name=self._name)
        return found

    def __enter__(self) -> Answering:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.do("stop answering", name=self._name)


class Consuming:
    """A consumer in a Java client that keeps what it receives. A context manager, which stops it."""

    def __init__(self, client: Client, kind: str, wanted: Mapping[str, str | int]) -> None:
        self._client = client
        self._name = f"consumer{next(_names)}"
        self._last: list[dict[str, Any]] | None = None
        client.do("consume", name=self._name, kind=kind, **{"from": "first", "tags": "*", **wanted})

    def received(self) -> list[dict[str, Any]]:
        """All so far; after `stop`, all there were."""
        if self._last is not None:
            return self._last
        messages: list[dict[str, Any]] = self._client.do("received", name=self._name)
        return messages

    def bodies(self) -> list[str]:
        return [message["body"] for message in self.received()]

    def owned(self) -> set[str]:
        """`broker:queue` of what the group's members gave to this one."""
        return set(self._client.do("owned", name=self._name))

    def stop(self) -> None:
        if self._last is None:
            self._last = self._client.do("stop consuming", name=self._name)

    def __enter__(self) -> Consuming:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


class Admin(Conversation):
    """Java's mqadmin of one version; many commands in one JVM (tests/interop/java/Admin.java)."""

    def __init__(self, version: str, home: Path, *, env: Mapping[str, str] | None = None) -> None:
        (home / "conf").mkdir(exist_ok=True)
        # mqadmin 4.9 will not run without one.
        (home / "conf" / "logback_tools.xml").write_text('<configuration><root level="OFF"/></configuration>')
        super().__init__(start(version, "Admin", home=home, env=env, programs=True))

    def run(self, *words: str) -> str:
        """What the command printed on stdout and stderr, without stack frames and the logger's start-up lines."""
        printed: str = self.ask(*words)
        return "".join(line for line in printed.splitlines(keepends=True) if not _NOISE.match(line))


def free_broker_port() -> int:
    """A port p with p-2 (the second listener) and p+1 (replication) free as well.

    Taken below the range that the kernel hands out by itself, so that no connection slips in before the broker binds.
    """
    for _ in range(200):
        port = random.randrange(12_000, 32_000)
        if all(_is_free(neighbour) for neighbour in (port, port - 2, port + 1)):
            return port
    raise cache.PeerMissing("no three free ports for a Java broker between 12000 and 32000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True
