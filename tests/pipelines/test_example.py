"""The example notebook runs, in the session that is there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.house.source import ROOT
from tests.spark.servers import Servers


def test_the_notebook_runs_to_its_end(
    spark: SparkSession,
    servers: Servers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)  # others go on with it
    monkeypatch.setattr("sys.argv", ["spark_notebook.py", servers.namesrv, str(tmp_path)])
    told = runpy.run_path(str(ROOT / "examples" / "spark_notebook.py"))
    assert told["judged"].facts["agree"]
    assert told["judged"].facts["equal"] == 200
    shown = capsys.readouterr().out
    assert "order-17" in shown
    assert "<svg" in (tmp_path / "orders.html").read_text("utf-8")
