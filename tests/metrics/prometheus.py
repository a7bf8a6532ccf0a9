"""Debian's Prometheus: one that scrapes our daemons, asked over its API."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.support import ROOT, free_ports, require

RULES = ROOT / "deploy" / "prometheus" / "pyromq.rules.yaml"


class Prometheus:
    """`jobs`: addresses by name of the job."""

    def __init__(self, folder: Path, jobs: Mapping[str, Sequence[str]]) -> None:
        program = shutil.which("prometheus")
        require(program is not None, "prometheus is not installed (Debian's package prometheus)")
        assert program is not None
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(targets)}]} for job, targets in jobs.items()
            ],
        }
        file = folder / "prometheus.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                program,
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

        self._client = httpx.AsyncClient(base_url=self.url, trust_env=False, verify=False)

    async def stop(self) -> None:
        await self._client.aclose()
        self._process.terminate()
        await asyncio.to_thread(self._process.wait, 20)
        self._log.close()

    async def ask(self, path: str) -> Any:
        """Return the data of an answer; None while the server is not there yet."""
        try:
            reply = await self._client.get(path)
        except httpx.TransportError:
            return None
        return reply.json().get("data") if reply.status_code == 200 else None

    async def query(self, expression: str) -> list[dict[str, Any]]:
        found = await self.ask(f"/api/v1/query?query={quote(expression, safe='')}")
        return found["result"] if found else []

    async def until(self, expression: str) -> list[dict[str, Any]]:
        """Return the rows of an expression, as soon as there are some. The test's own time limit ends what never is."""
        while True:
            if rows := await self.query(expression):
                return rows
            await asyncio.sleep(0.1)
