"""Which way a consumer gets messages: over remoting, or over gRPC where its client was given endpoints."""

from __future__ import annotations

from typing import cast

from ..connect.session import Session
from ..core.retry import Retry
from .pop_calls import PopCalls
from .remoting_pops import RemotingPops


def pops_of(session: Session, group: str, retry: Retry) -> PopCalls:
    if not session.config.endpoints:
        return RemotingPops(session, group, retry)
    from ..grpc.grpc_pops import GrpcPops  # not at the top: few use it, and protobuf takes its time
    from ..grpc.grpc_session import GrpcSession

    return GrpcPops(cast(GrpcSession, session), group)
