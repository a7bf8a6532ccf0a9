"""What a daemon is told about etcd, as the client of etcd takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.coordination.settings import CoordinationSettings
from pyromq.errors import ConfigError


def test_members_user_and_files_become_the_clients_settings() -> None:
    found = CoordinationSettings(
        etcd_endpoints=("https://10.0.0.1:2379", "https://10.0.0.2:2379"),
        etcd_user="pyromq",
        etcd_password="secret",
        etcd_trust_cert_path=Path("ca.pem"),
        etcd_cert_path=Path("own.pem"),
        etcd_key_path=Path("own.key"),
    ).etcd()
    assert found.addresses == ("10.0.0.1:2379", "10.0.0.2:2379")
    assert (found.user, found.password) == ("pyromq", "secret")
    assert found.tls is not None
    assert (found.tls.ca, found.tls.certificate, found.tls.key) == (Path("ca.pem"), Path("own.pem"), Path("own.key"))


def test_without_files_the_system_checks_certificates() -> None:
    assert CoordinationSettings(etcd_endpoints=("https://10.0.0.1:2379",)).etcd().tls is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "etcdEndpoints is empty"),
        ({"etcd_endpoints": ("http://a:1",), "etcd_user": "me"}, "needs a password"),
        ({"etcd_endpoints": ("http://a:1",), "etcd_trust_cert_path": Path("ca.pem")}, "begin with http"),
        ({"etcd_endpoints": ("https://a:1",), "etcd_cert_path": Path("own.pem")}, "name both files or none"),
    ],
)
def test_what_does_not_fit_together_is_said(given: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        CoordinationSettings(**given).etcd()  # type: ignore[arg-type]
