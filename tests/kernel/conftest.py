"""Which kernel a test is about: those of the feeds run on the native one and on its twin in Python."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.kernel import twins

# They compare the native sessions of HTTP/2 with the twin, or count what the kernel's own feed serves of their calls:
# where the Python kernel serves there are no such sessions.
collect_ignore = (
    [
        "test_call_guard.py",
        "test_grpc_beats.py",
        "test_grpc_broker.py",
        "test_grpc_guard.py",
        "test_grpc_guard_pops.py",
        "test_grpc_pops.py",
        "test_grpc_pops_fuzz.py",
        "test_hot_beats.py",
        "test_hot_sends.py",
        "test_http2_fuzz.py",
        "test_http2_rest.py",
        "test_http2_session.py",
    ]
    if os.environ.get("PYROMQ_KERNEL") == "python"
    else []
)


BOTH = (
    "test_native_send",
    "test_detours",
    "test_native_pull",
    "test_verdicts",
    "test_pull_verdicts",
    "test_late_answers",
    "test_pop_table",
    "test_guard",
    "test_guard_pops",
    "test_quota_feeds",
)
NATIVE_ONLY = {  # tests that count what the kernel took: its twin leaves more, or less, to the handlers
    "test_a_native_bucket_is_its_twin_to_the_last_bit": "it is about the native one",
    "test_what_is_popped_is_paid_for": "its twin has no feed of pops",
    "test_a_pop_that_waited_pays": "its twin has no feed of pops",
    "test_rare_tags_far_behind": "entries that lie in two files are left",
    "test_what_is_taken": "headers of any shape are decoded",
    "test_on_a_real_disk": "records that lie in two files are left",
    "test_late_answers_are_what_python_says": "batches are left",
}


@pytest.fixture(autouse=True)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    twins.SERVES[0] = getattr(request, "param", "native")
    yield twins.SERVES[0]
    twins.SERVES[0] = "native"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_both = metafunc.module.__name__.rpartition(".")[2] in BOTH and metafunc.function.__name__ not in NATIVE_ONLY
    if is_both and "kernel" in metafunc.fixturenames:
        metafunc.parametrize("kernel", ("native", "python"), indirect=True)
