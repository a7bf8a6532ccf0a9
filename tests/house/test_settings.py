"""A setting is read by somebody: an option that is accepted and ignored would be worse than none."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pyromq.broker.config import BrokerConfig
from pyromq.config.settings import settings_of
from pyromq.namesrv.config import NamesrvConfig
from tests.house.source import modules


def attributes_read(trees: Iterable[ast.AST]) -> set[str]:
    """Return the names that are read of any object, as `x` in `live.config.x`."""
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def test_every_setting_is_read() -> None:
    settings = settings_of(BrokerConfig).keys() | settings_of(NamesrvConfig).keys()
    assert settings - attributes_read(each.tree for each in modules().values()) == set()


def test_the_check_can_fail() -> None:
    assert attributes_read([ast.parse("a.read = b.used.deep; note('named')")]) == {"used", "deep"}
