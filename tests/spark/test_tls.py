"""Reads and writes by TLS: the certificate is checked, and what does not fit is told in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.client.errors import NoNameServer
from pyromq.errors import ConnectionLost
from pyromq.pipelines.run.brokers import ages, widen
from pyromq.spark.connect.cluster import Cluster
from pyromq.spark.connect.connection import BlockingConnection
from pyromq.spark.options import Use, connection_options, net_part, read_options, write_options
from pyromq.spark.read.offsets import OffsetRange
from pyromq.spark.read.pulling import read_range
from pyromq.spark.schema import arrow_schema
from pyromq.spark.write.sending import BatchSender
from pyromq.spark.write.writing import RowWriter
from tests.spark.servers import SMALL, Daemon, until_registered
from tests.spark.test_write import chunks
from tests.transport.certificates import Authority


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Options for a name server and a broker that take TLS alone."""
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("server")
    told = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": pair.certificate,
        "tls.server.keyPath": pair.key,
        "tls.enable": "true",
        "tls.client.trustCertPath": authority.file,
        "tls.client.authServer": "true",
    }
    names_file, broker_file = tmp_path / "namesrv.conf", tmp_path / "broker.conf"
    names_file.write_text("".join(f"{key}={value}\n" for key, value in told.items()), "utf-8")
    own = SMALL | told | {"brokerName": "broker-a", "storePathRootDir": tmp_path / "store"}
    broker_file.write_text("".join(f"{key}={value}\n" for key, value in own.items()), "utf-8")
    names = Daemon("namesrv", "--listen", "127.0.0.1:0", "--config", str(names_file))
    try:
        listening = ("--listen", "127.0.0.1:0", "--namesrv", names.address)
        broker = Daemon("broker", *listening, "--config", str(broker_file))
        try:
            net = {"tls": "true", "tls.ca": str(authority.file)}
            until_registered(names.address, "broker-a", **net)
            yield {"nameServer": names.address, "topic": "T", **net}
        finally:
            broker.stop()
    finally:
        names.stop()


def test_messages_there_and_back_by_tls(secured: dict[str, str]) -> None:
    writing = write_options(secured)
    assert RowWriter(writing, "query/0/0", 0, BatchSender(writing)).write(chunks(100)).rows == 100
    options = read_options(secured, Use.BATCH)
    with Cluster(options) as cluster:
        queues = cluster.queues(["T"])
        bounds = cluster.bounds(queues)
    found = [
        row["body"]
        for queue, (low, high) in bounds.items()
        for batch in read_range(OffsetRange(queue, low, high), queues[queue], options, arrow_schema(["body"]))
        for row in batch.to_pylist()
    ]
    assert sorted(found) == sorted(f"m{number}".encode() for number in range(100))


def test_a_certificate_of_somebody_else_is_refused(secured: dict[str, str], tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    options = read_options(secured | {"tls.ca": str(other.file), "fetchOffset.numRetries": "0"}, Use.BATCH)
    with Cluster(options) as cluster, pytest.raises(NoNameServer):
        cluster.topics(".*")
    with pytest.raises(ConnectionLost, match="certificate verify failed"):
        BlockingConnection(secured["nameServer"], options)


def test_a_server_that_wants_our_certificate_gets_it(tmp_path: Path) -> None:
    """Its own is made out to another host: `tls.verify` says how much of it counts."""
    authority = Authority(tmp_path, "ca")
    server, client = authority.issue("server", host="mq.example"), authority.issue("client", password="open sesame")
    told = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": server.certificate,
        "tls.server.keyPath": server.key,
        "tls.server.trustCertPath": authority.file,
        "tls.server.need.client.auth": "require",
    }
    config = tmp_path / "namesrv.conf"
    config.write_text("".join(f"{key}={value}\n" for key, value in told.items()), "utf-8")
    names = Daemon("namesrv", "--listen", "127.0.0.1:0", "--config", str(config))
    own = {"tls.certificate": str(client.certificate), "tls.key": str(client.key), "tls.keyPassword": "open sesame"}
    ca = {"tls.ca": str(authority.file)}

    def ask(verify: str, given: dict[str, str]) -> list[str]:
        options = {"nameServer": names.address, "topic": "T", "tls": "true", "tls.verify": verify}
        with Cluster(read_options(options | given, Use.BATCH)) as asked:
            return asked.topics(".*")

    try:
        assert ask("ca", own | ca) == ask("none", own)
        for verify, given in (("full", own | ca), ("ca", own), ("ca", ca)):  # another host, no CA, nothing to show
            with pytest.raises(NoNameServer):
                ask(verify, given)
    finally:
        names.stop()


def test_what_a_job_asks_of_brokers_goes_by_tls_too(secured: dict[str, str]) -> None:
    """More queues and the ages of topics were asked for without TLS, and never answered."""
    net = connection_options(net_part(secured), Use.BATCH)
    assert widen(net, "T", 3) == {"broker-a": 3}
    assert widen(net, "T", 2) == {"broker-a": 3}
    assert ages(net, now_ms=0) == []
    writing = write_options(secured)
    assert RowWriter(writing, "query/0/0", 0, BatchSender(writing)).write(chunks(1)).rows == 1
    assert [(each.topic, each.broker) for each in ages(net, now_ms=0)] == [("T", "broker-a")]
