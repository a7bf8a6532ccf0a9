"""The recorded outputs of mqadmin 5.5.0, and how ours is laid beside them. Read by the tests of this folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

GOLDEN = Path(__file__).parents[1] / "golden"
HELP = GOLDEN / "mqadmin" / "help"
NAME_SERVER, BROKER = "127.0.0.1:19876", "127.0.0.1:20911"


class Block(NamedTuple):
    """One recorded invocation."""

    command: str
    printed: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)

    @property
    def short(self) -> str:
        """For the test's name."""
        return self.command.replace(f" -n {NAME_SERVER}", "").replace(f" -b {BROKER}", " -b B")[:70]


def blocks(name: str) -> list[Block]:
    text = (GOLDEN / "mqadmin" / f"{name}.txt").read_text()
    parts = re.split(r"(?m)^mqadmin (.*)\n", text)[1:]
    return [Block(command, _own(printed)) for command, printed in zip(parts[::2], parts[1::2], strict=True)]


def _own(printed: str) -> str:
    """Without what another command printed meanwhile, and with failures in our shape: one line with the cause."""
    printed = re.sub(r"org.*CLusterSendMsgRTCommand command failed\nCaused by: .*sleep interrupted\n", "", printed)
    printed = re.sub(r"(?m)^org\.\S+SubCommandException: \w+ command failed\n", "", printed)
    printed = re.sub(r"(?m)^(Caused by: )?(org|java)\.\S+Exception: ", "Caused by: ", printed)
    return re.sub(r"(?m)^(For more information, please visit|See https://rocketmq).*\n", "", printed)


def chosen(names: str, leave_out: Mapping[str, str]) -> list[Block]:
    """All recorded invocations of commands but those with one of these texts, for the reason beside it."""
    found = [block for name in names.split() for block in blocks(name)]
    for text in leave_out:
        assert any(text in block.command for block in found), f"{text} is in no recording"
    return [block for block in found if not any(text in block.command for text in leave_out)]


def recorded_names() -> list[str]:
    """All commands, in the order of `mqadmin` without arguments."""
    lines = (HELP / "_list.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line.startswith("   ")]


def masked(printed: str, *patterns: Mapping[str, str]) -> list[str]:
    """Lines without what moves, sorted: Java prints its maps in no order that means anything."""
    for pattern, word in {name: word for each in (*patterns, SPACE) for name, word in each.items()}.items():
        printed = re.sub(pattern, word, printed, flags=re.MULTILINE)
    return sorted(line for line in printed.splitlines() if line)


TIMES = {
    r"\d{4}-\d\d-\d\d[ -]\d\d[:-]\d\d[:-]\d\d([,.:]\d+)?": "TIME",
    r"\b1[789]\d{11}\b": "MS",
}
SPACE = {r"[ \t]+": " ", r" +$": ""}
