"""Typed cluster operations over the wire: what `pyromq` and `mqadmin` ask of servers.

async with connect(namesrv) as client:
    calls = admin.calls.Calls(client.session)
    for broker in await admin.cluster.brokers(calls):
        print(await admin.topics.configs(calls, broker.address))

Each file has the functions of one noun. They speak RocketMQ's own requests and so drive Apache's brokers too, except
where a docstring says "our brokers". They raise the errors of `client.errors` and print nothing. A file is imported
when it is first used, so that a command's help needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import calls as calls
    from . import cluster as cluster
    from . import copies as copies
    from . import definitions as definitions
    from . import groups as groups
    from . import messages as messages
    from . import offsets as offsets
    from . import proxies as proxies
    from . import quotas as quotas
    from . import replicas as replicas
    from . import roles as roles
    from . import search as search
    from . import settings as settings
    from . import topics as topics
    from . import users as users


def __getattr__(name: str) -> ModuleType:
    try:
        return import_module(f".{name}", __name__)
    except ModuleNotFoundError as missing:
        if missing.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
