"""Signed gRPC calls: their headers, and brokers with users and policies whose calls the kernel serves, or the RPCs."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyromq.access.signatures import Signer
from tests.kernel.grpc_served import Served, served
from tests.kernel.guard_frames import BOSS, ON, SECRET, SHOP, make_users, users

NOW_MS = 1_700_000_000_000  # when these brokers start
FORM = "MQv2-HMAC-SHA1 Credential={}/region/Rocketmq, SignedHeaders=x-mq-date-time, Signature={}"


def date_of(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def digest_of(date: str, secret: str = SECRET) -> str:
    return hmac.digest(secret.encode(), date.encode(), "sha1").hex().upper()


NOW = date_of(NOW_MS)


def signed_call(name: str = SHOP, secret: str = SECRET, date: str = NOW, form: str = FORM) -> dict[str, str]:
    """The headers of a signed call, as `Client.metadata` has them."""
    return {"authorization": form.format(name, digest_of(date, secret)), "x_mq_date_time": date}


@asynccontextmanager
async def guarded(folder: Path, by_kernel: bool = True, **settings: Any) -> AsyncIterator[Served]:
    async with served(folder, by_kernel, Signer(BOSS, SECRET).sign, **(ON | settings)) as here:
        make_users(users(here.life))
        yield here
