"""The line that counts in Spark's texts, which are as Spark 4 writes them."""

from __future__ import annotations

import pytest

from pyromq.cli.pipeline.faults import JobFailed, fault_in, plain_faults

SOURCE = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source read in Python: \
Traceback (most recent call last):
  File "/x/pyromq/spark/read/starting.py", line 44, in with_retries
    return queues, cluster.bounds(queues)
pyromq.client.errors.TopicNotFound: topic 'nope' does not exist: make it by the first send
SQLSTATE: 38000

JVM stacktrace:
org.apache.spark.sql.AnalysisException: [PYTHON_DATA_SOURCE_ERROR] Failed to plan"""
COLUMN = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `tgas` cannot be resolved. Did you mean [`tags`]? \
SQLSTATE: 42703; line 1 pos 0;
'Filter ('tgas = paid)
+- Project [body#1]"""
IN_A_BATCH = """[STREAM_FAILED] Query [id = 1] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error \
occurred in the user provided function in foreach batch sink. Reason: Traceback (most recent call last):
  File "/x/sending.py", line 3, in send
pyspark.errors.exceptions.captured.AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `tgas` \
cannot be resolved. SQLSTATE: 42703; line 1 pos 0;
'Filter"""
JAVA = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
Caused by: java.nio.file.NoSuchFileException: /data/7.parquet"""
LOSS = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] \
Failed when Python streaming data source perform planPartitions: pyromq.spark.read.offsets.DataLoss: T/a/0: offsets 4 \
to 20 are gone. Set failOnDataLoss=false to go on without them"""
WORKER = """Job aborted
Traceback (most recent call last):
  File "worker.py", line 1
ModuleNotFoundError: No module named 'pyromq'
"""


@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        (SOURCE, "topic 'nope' does not exist: make it by the first send", 1),
        ("pyromq.errors.ConfigError: store: /x is not a store", "store: /x is not a store", 78),
        ("pyromq.client.errors.Unreachable: 10.0.0.1:9876 cannot be reached", "10.0.0.1:9876 cannot be reached", 2),
        (LOSS, "T/a/0: offsets 4 to 20 are gone. Give -o failOnDataLoss=false to go on without them", 78),
        (COLUMN, "A column with name `tgas` cannot be resolved. Did you mean [`tags`]?", 64),
        (IN_A_BATCH, "A column with name `tgas` cannot be resolved.", 64),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near '='.", "Syntax error at or near '='.", 64),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x.", "Path does not exist: file:/x.", 78),
        (JAVA, "NoSuchFileException: /data/7.parquet", 78),
        (WORKER, "ModuleNotFoundError: No module named 'pyromq'", 78),
        ("\n\nsomething else\n", "something else", 78),
    ],
)
def test_the_useful_line(text: str, line: str, code: int) -> None:
    assert fault_in(text) == (line, code)


def test_a_process_of_sparks_that_is_gone_is_told_so() -> None:
    with pytest.raises(JobFailed, match="Java process is gone") as found, plain_faults():
        raise ConnectionRefusedError(111, "Connection refused")
    assert found.value.exit_code == 2


def test_an_error_of_our_own_is_no_fault_of_sparks() -> None:
    with pytest.raises(ZeroDivisionError), plain_faults():
        raise ZeroDivisionError


def test_a_java_process_that_does_not_start_is_one_line() -> None:
    from pyspark.errors import PySparkRuntimeError

    with pytest.raises(JobFailed, match="did not start: its own words are above") as found, plain_faults():
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    assert found.value.exit_code == 78
