"""What a peer says of itself in every frame: language and version."""

from __future__ import annotations

from enum import IntEnum


class Language(IntEnum):
    """LanguageCode of RocketMQ: the name stands in JSON headers, the number in binary ones."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


class Version:
    """MQVersion ordinals on which behaviour depends (a minor release is 20 apart). We speak as 5.5.0."""

    V3_0_11 = 37  # registration bodies may be compressed and carry a filter list
    V3_1_8_SNAPSHOT = 62  # clients that can be asked for their running information
    V3_4_9 = 121  # maxReconsumeTimes of the client counts
    V4_9_3 = 399  # clients up to it add a field to what they have signed
    V4_9_4 = 401  # route maps with quoted keys
    V5_0_0 = 413  # registration carries static-topic mappings
    V5_3_1 = 475  # newer clients understand GO_AWAY
    V5_5_0 = 513
    CURRENT = V5_5_0


_V4_0_0 = 212  # its snapshot


def version_name(number: int) -> str:
    """Return `V5_5_0` for the version of a client or broker: from 4.0.0 (213) on, each patch takes two numbers."""
    if number < _V4_0_0:
        return f"V3({number})"
    minors, patches = divmod(number - _V4_0_0, 20)
    name = f"V{4 + minors // 10}_{minors % 10}_{patches // 2}"
    return name if patches % 2 else f"{name}_SNAPSHOT"
