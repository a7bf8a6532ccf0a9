"""Fields that many requests share: headers of requests begin with one of these."""

from __future__ import annotations

from .header import Header


class RpcHeader(Header, kw_only=True):
    """Namespace, broker name and the one-way wish of 5.x."""

    bname: str | None = None
    ns: str | None = None
    nsd: bool | None = None
    oway: bool | None = None


class TopicHeader(RpcHeader, kw_only=True):
    """The same, and whether a queue id is a logical one of a static topic (`lo`; false: it is physical)."""

    lo: bool | None = None
