"""What went wrong in a Spark job, as one line and an exit code: the one place where Spark's exceptions are read.

Spark wraps an error of the data source (a topic that does not exist) or of an expression (a column that does not exist)
into texts of hundreds of lines: Java's stack, the plan, Python's traceback. The line that says what to do is in there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...errors import PyroError
from ...spark.read.offsets import DataLoss
from ..terminal.exits import NO, NO_ANSWER, REFUSED, USAGE

# An error of ours, in the last line of a traceback from a process of Spark's or within a text of its own.
_OURS = re.compile(r"(?:^|: )\s*pyromq(?:\.\w+)*\.([A-Z]\w*): (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] (.+)")
_PYTHON = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+\.)?([\w$]+): (.+)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+(?:; line \d+ pos \d+)?")
_AROUND = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "PYTHON_DATA_SOURCE_ERROR", "FAILED_EXECUTE_UDF")
# Of an expression that was given: --where, --by.
_EXPRESSION = re.compile("UNRESOLVED_|PARSE_|DATATYPE_MISMATCH|WRONG_NUM_ARGS|AMBIGUOUS_|INVALID_|CAST_|MISSING_")
# What py4j says where a connection broke off within a call.
_GONE = ("Answer from Java side is empty", "while sending or receiving")
_CODES = {"TopicNotFound": NO, "Unreachable": NO_ANSWER, "NoBroker": NO_ANSWER, "CallFailed": NO_ANSWER}


class JobFailed(PyroError):
    """A Spark job failed: the text says why, and the command ends with this exit code."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class SparkFault(NamedTuple):
    line: str
    exit_code: int


def fault_in(text: str) -> SparkFault:
    """Return the line of Spark's text that says what is wrong."""
    if ours := _OURS.findall(text):
        kind, line = ours[-1]
        return SparkFault(_as_typed(line.strip()), _CODES.get(kind, REFUSED))
    for condition, line in _CONDITION.findall(text):
        if not condition.startswith(_AROUND):
            code = USAGE if _EXPRESSION.match(condition) else REFUSED
            return SparkFault(_STATE.sub("", line).rstrip("; "), code)
    for pattern in (_PYTHON, _CAUSE):
        if found := pattern.findall(text):
            return SparkFault(": ".join(found[-1]), REFUSED)
    return SparkFault(next((line.strip() for line in text.splitlines() if line.strip()), "Spark says no more"), REFUSED)


def _as_typed(line: str) -> str:
    """Return the line with the option of a read as it is given to a command."""
    return line.replace("Set failOnDataLoss=false", "Give -o failOnDataLoss=false")


@contextmanager
def plain_faults() -> Iterator[None]:
    """Raise JobFailed for DataLoss of a plan and for Spark's exceptions; the latter as they are if debug is logged."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except DataLoss as fault:
        raise JobFailed(_as_typed(str(fault)), REFUSED) from None
    except (PySparkException, Py4JError, ConnectionError) as fault:
        if is_debugging():
            raise
        if isinstance(fault, (Py4JNetworkError, ConnectionError)) or any(words in str(fault) for words in _GONE):
            gone = "Spark's Java process is gone; was it killed, or out of memory (--memory)?"
            raise JobFailed(gone, NO_ANSWER) from None
        if "JAVA_GATEWAY_EXITED" in str(fault):
            why = "Spark's Java process did not start: its own words are above (--memory, --master, --conf, JAVA_HOME)"
            raise JobFailed(why, REFUSED) from None
        line, code = fault_in(f"{fault.java_exception}\n{fault}" if isinstance(fault, Py4JJavaError) else str(fault))
        raise JobFailed(line, code) from None


def quieten() -> None:
    """Keep Spark and py4j from logging an error of their own accord: it ends in one line of ours."""
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def is_debugging() -> bool:
    return logging.getLogger("pyromq").isEnabledFor(logging.DEBUG)
