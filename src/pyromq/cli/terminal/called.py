"""Hints that can be typed where they stand: `pyromq topic list` becomes what this program was called by.

Who has it on the PATH types `pyromq`, who cloned it `.venv/bin/pyromq`. The way out (`printing.py`) asks for what goes
to stderr, help (`tree.py`) for its examples; who prints a hint on stdout asks itself.
Nothing is looked up before there is a hint.
"""

from __future__ import annotations

import os
import re
import sys

from ...model.foreign_text import shell_word

NAME = "pyromq"
# All commands of main.py, which imports this module: the word alone is also the package's name.
COMMANDS = (
    "up|dev|namesrv|broker|proxy|dashboard|controller|pub|sub|req|run|topic|group|msg|dlq|cluster|export|"
    "apply|kv|inspect|doctor|top|bench|config|profile|store|user|acl|quota|audit|tls|sql|cdc|pipeline|spark|demo|"
    "completion"
)


def as_called(text: str) -> str:
    """Return the text with each `pyromq COMMAND` in it as the user has to type it."""
    if f"{NAME} " not in text or (program := _program(sys.argv[0])) == NAME:
        return text
    return re.sub(rf"(?<![\w./-]){NAME}(?= (?:{COMMANDS})\b)", lambda _: program, text)


def _program(given: str) -> str:
    if given.endswith(os.path.join("cli", "main.py")):
        return f"{shell_word(sys.executable)} -m pyromq.cli.main"
    if os.path.basename(given) != NAME:  # a program of the user's own runs us
        return NAME
    import shutil  # not at the top: most runs print no hint

    found = shutil.which(NAME)
    return NAME if found is not None and os.path.realpath(found) == os.path.realpath(given) else shell_word(given)
