"""What native heartbeats of gRPC clients and the proxy say to each other.

Nearly all heartbeats say nothing new: the proxy notes that the client is there (`TakeRenewal`), and the answer is
always the same. The kernel reads such a call and answers it; any other one, and what the proxy does not take, is the
RPC's, untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

# Client id, language, address and the name of the group, as the call has them. Return whether it was a renewal, and
# has been noted; False: nothing has changed, and the RPC is to look. Event loop only.
TakeRenewal = Callable[[str, str, str, str], bool]


class BeatRules(NamedTuple):
    """The method, and the HeartbeatResponse of success."""

    path: str
    answer: bytes
