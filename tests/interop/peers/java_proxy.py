"""Apache's proxy, unmodified, over any name server: cluster mode beside the brokers, on free loopback ports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import free_ports

from . import java
from .process import Program, ProgramFailed

VERSION = "5.5.0"
MAIN = "org.apache.rocketmq.proxy.ProxyStartup"


class Proxy:
    """Ready when constructed. `endpoint` takes gRPC, `remoting` the remoting protocol."""

    def __init__(
        self,
        home: Path,
        name_server: str,
        settings: Mapping[str, object] | None = None,
        *,
        cluster: str = "DefaultCluster",
        jvm: Sequence[str] = java.QUICK,
    ) -> None:
        grpc_port, remoting_port = free_ports(2)
        self.endpoint, self.remoting = f"127.0.0.1:{grpc_port}", f"127.0.0.1:{remoting_port}"
        merged = {
            "rocketMQClusterName": cluster,
            "proxyClusterName": cluster,
            "namesrvAddr": name_server,
            "grpcServerPort": grpc_port,
            "remotingListenPort": remoting_port,
            "localServeAddr": "127.0.0.1",
            "useEndpointPortFromRequest": True,
            **(settings or {}),
        }
        (home / "conf").mkdir(parents=True, exist_ok=True)
        file = home / "conf" / "rmq-proxy.json"
        file.write_text(json.dumps(merged))
        self.program = self._started(home, ["-pm", "cluster", "-n", name_server, "-pc", file], jvm)

    def _started(self, home: Path, words: Sequence[str | Path], jvm: Sequence[str]) -> Program:
        library = java.fetched(f"java-proxy-{VERSION}", VERSION, ("proxy",))
        command = [java.runtime(), *java.OPENS, *jvm, f"-Duser.home={home}", "-cp", f"{library}/*", MAIN, *words]
        env = {"HOME": str(home), "ROCKETMQ_HOME": str(home), "NAMESRV_ADDR": "", "RMQ_PROXY_HOME": str(home)}
        program = Program(command, name=f"proxy {VERSION}", env=env, cwd=home)
        try:
            program.wait_for(r"rocketmq-proxy startup successfully")
        except ProgramFailed:
            program.kill()
            raise
        return program

    def kill(self) -> None:
        self.program.kill()
