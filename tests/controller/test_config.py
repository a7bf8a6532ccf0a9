"""What a controller's file may say, Java's own included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.config import load
from pyromq.controller.config import CONTROLLER_KEYS, ControllerConfig
from pyromq.errors import ConfigError

ETCD = "etcdEndpoints=http://127.0.0.1:2379\n"


def loaded(folder: Path, text: str) -> ControllerConfig:
    file = folder / "controller.conf"
    file.write_text(text)
    return load(ControllerConfig, CONTROLLER_KEYS, daemon="controller", file=file).config


def test_a_file_of_java_s_with_etcd_added_is_taken(tmp_path: Path) -> None:
    java = (
        "controllerDLegerGroup=group1\ncontrollerDLegerPeers=n0-127.0.0.1:9877;n1-127.0.0.1:9878\n"
        "controllerDLegerSelfId=n1\ncontrollerStorePath=/tmp/c\ncontrollerType=DLedger\nmappedFileSize=1048576\n"
        "controllerThreadPoolNums=16\nisProcessReadEvent=true\nenableElectUncleanMaster=true\n"
    )
    found = loaded(tmp_path, java + ETCD)
    assert (found.own_peer, found.port, found.controller_dleger_group) == ("127.0.0.1:9878", 9878, "group1")
    assert found.enable_elect_unclean_master


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "etcdEndpoints is empty"),
        (ETCD + "controllerDLegerPeers=n0-127.0.0.1:9877\n", "names controllerDLegerSelfId =  0 times"),
        (ETCD + "controllerDLegerSelfId=a/b\n", "names have no slash"),
        (
            ETCD + "controllerDLegerPeers=n0-127.0.0.1:9877\ncontrollerDLegerSelfId=n0\nlistenPort=1\n",
            "listenPort = 1, but controllerDLegerPeers says 9877",
        ),
        (ETCD + "bindAddress=10.0.0.1\n", "set authenticationEnabled=true"),
        (ETCD + "authorizationEnabled=true\n", "set authenticationEnabled = true too"),
        (ETCD + "bindAddress=0.0.0.0\nallowUnauthenticated=true\n", "brokers have to be told where"),
        (ETCD + "metricsExporterType=PROM\n", "controllers export no metrics yet"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as found:
        loaded(tmp_path, text)
    assert why in str(found.value)


def test_the_address_is_its_own_name_without_another(tmp_path: Path) -> None:
    found: Any = loaded(tmp_path, ETCD)
    assert (found.own_peer, found.port) == ("", 19876)


def test_it_listens_for_other_machines_once_everybody_is_asked_who_he_is(tmp_path: Path) -> None:
    found = loaded(tmp_path, ETCD + "bindAddress=10.0.0.1\nauthenticationEnabled=true\n")
    assert found.access.authentication_enabled
