"""The same worlds as the SDK's tests."""

from __future__ import annotations

from tests.client.conftest import empty_world, world

__all__ = ["empty_world", "world"]
