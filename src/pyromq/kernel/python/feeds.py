"""The Python kernel's feeds under the names that the native module has."""

from __future__ import annotations

from ..pulls import PullGrant
from ..sends import Grant
from .guard import AccessGuard
from .pull_feed import PullFeed
from .send_feed import SendFeed

__all__ = ["AccessGuard", "Grant", "PullFeed", "PullGrant", "SendFeed"]
