"""The same worlds as the SDK's tests."""

from __future__ import annotations

from tests.client.conftest import empty_world, shared_java, world, world_with

__all__ = ["empty_world", "shared_java", "world", "world_with"]
