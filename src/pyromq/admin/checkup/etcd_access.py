"""How tools reach the etcd of elected sets: endpoints are the brokers', the rest is of the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...coordination.etcd_settings import EtcdSettings
from ...coordination.settings import CoordinationSettings


def etcd_of(endpoints: Iterable[str]) -> EtcdSettings:
    """Return how this program reaches the etcd of brokers; user, password and CA are told by the environment."""
    ca = os.environ.get("PYROMQ_ETCD_CA")
    facts: dict[str, Any] = {
        "etcd_endpoints": tuple(endpoints),
        "etcd_user": os.environ.get("PYROMQ_ETCD_USER", ""),
        "etcd_password": os.environ.get("PYROMQ_ETCD_PASSWORD", ""),
        "etcd_trust_cert_path": Path(ca) if ca else None,
    }
    return CoordinationSettings(**facts).etcd()
