"""The Python kernel's feeds under the names that the native module has."""

from __future__ import annotations

from .pull_feed import PullFeed, PullGrant
from .send_feed import Grant, SendFeed

__all__ = ["Grant", "PullFeed", "PullGrant", "SendFeed"]
