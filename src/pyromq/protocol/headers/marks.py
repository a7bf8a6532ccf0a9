"""Fields that many requests share: PROTOCOL's markers R and T."""

from __future__ import annotations

from .header import Header


class RpcHeader(Header, kw_only=True):
    """R: namespace, broker name and the one-way wish of 5.x."""

    bname: str | None = None
    ns: str | None = None
    nsd: bool | None = None
    oway: bool | None = None


class TopicHeader(RpcHeader, kw_only=True):
    """T: R, and whether a queue id is a logical one of a static topic (`lo`; false: it is physical)."""

    lo: bool | None = None
