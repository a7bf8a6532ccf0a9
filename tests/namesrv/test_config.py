"""The name server's settings: what is accepted, what refuses to start and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.config import load, settings_of
from pyromq.errors import ConfigError
from pyromq.namesrv.config import NAMESRV_KEYS, NamesrvConfig
from pyromq.transport.tls import ClientCertificates, TlsMode, Verify


def from_text(tmp_path: Path, text: str) -> NamesrvConfig:
    file = tmp_path / "namesrv.conf"
    file.write_text(text)
    return load(NamesrvConfig, NAMESRV_KEYS, daemon="namesrv", file=file).config


def test_defaults_are_javas_except_for_the_address() -> None:
    config = NamesrvConfig()
    assert (config.bind_address, config.listen_port) == ("127.0.0.1", 9876)
    assert config.scan_not_active_broker_interval == 5000
    assert config.return_order_topic_config_to_broker
    assert config.limits().idle_s == 120
    assert config.server_tls() is None
    assert config.client_tls() is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_permission(host: str) -> None:
    assert NamesrvConfig(bind_address=host).bind_address == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "namesrv.example"])
def test_other_addresses_need_it(host: str) -> None:
    with pytest.raises(ConfigError, match=r"--insecure, or set allowUnauthenticated=true"):
        NamesrvConfig(bind_address=host)
    assert NamesrvConfig(bind_address=host, allow_unauthenticated=True).bind_address == host


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("enableControllerInNamesrv=true", "run a controller of its own, or set enableControllerInNamesrv=false"),
        ("clusterTest=true", "clusterTest = true is refused"),
        ("tls.config.file=/etc/rocketmq/tls.properties", "move that file's keys into this one"),
        ("listenPort=70000", "listenPort = 70000"),
        ("listenPrt=9876", "did you mean 'listenPort'"),
        ("scanNotActiveBrokerInterval=soon", "whole number"),
    ],
)
def test_a_file_that_cannot_be_honoured_is_refused_with_line_key_value_and_remedy(
    tmp_path: Path, line: str, words: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        from_text(tmp_path, f"# a comment\n{line}\n")
    assert "namesrv.conf line 2" in str(refusal.value)
    assert words in str(refusal.value)


def test_keys_without_meaning_are_accepted_and_reported_once(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("defaultThreadPoolNums=4\nclusterTest=false\nunRegisterBrokerQueueCapacity=5\n")
    loaded = load(NamesrvConfig, NAMESRV_KEYS, daemon="namesrv", file=file)
    assert len(loaded.findings) == 3
    threads, queue = loaded.notices  # clusterTest=false is how it runs
    assert "no thread pools" in threads
    assert "unRegisterBrokerQueueCapacity has no effect" in queue


def test_the_page_lists_every_setting_that_can_be_changed_while_running() -> None:
    page = (Path(__file__).parents[2] / "docs" / "namesrv.md").read_text("utf-8")
    for one in settings_of(NamesrvConfig).values():
        assert (f"`{one.java}`" in page) or not one.live, one.java


def test_limits_come_from_the_settings(tmp_path: Path) -> None:
    config = from_text(
        tmp_path,
        "com.rocketmq.remoting.frameMaxLength=65536\nserverChannelMaxIdleTimeSeconds=7\nmaxConnectionsPerAddress=3\n"
        "writeBufferHighWaterMark=4096\n",
    )
    limits = config.limits()
    assert limits.frame.frame_bytes == 65536
    assert (limits.idle_s, limits.connections_per_address, limits.connections) == (7, 3, None)
    assert limits.write_high_bytes == 4096


def test_tls_settings_are_passed_on(tmp_path: Path) -> None:
    config = from_text(
        tmp_path,
        "tls.server.mode=enforcing\ntls.server.certPath=/c\ntls.server.keyPath=/k\ntls.server.keyPassword=p\n"
        "tls.server.trustCertPath=/ca\ntls.server.need.client.auth=require\n"
        "tls.enable=true\ntls.client.authServer=true\ntls.client.trustCertPath=/ca\n",
    )
    server, client = config.server_tls(), config.client_tls()
    assert server is not None
    assert (server.mode, server.certificate, server.key_password) == (TlsMode.ENFORCING, Path("/c"), "p")
    assert server.client_certificates is ClientCertificates.REQUIRE
    assert client is not None
    assert (client.verify, client.ca) == (Verify.CA, Path("/ca"))


@pytest.mark.parametrize("text", ["tls.server.mode=enforcing\n", "tls.server.certPath=/c\n", "tls.server.keyPath=/k\n"])
def test_half_of_a_tls_configuration_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="TLS needs both files"):
        from_text(tmp_path, text).server_tls()
