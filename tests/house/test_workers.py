"""Tests that share a costly part of the whole session run in one worker, so that it is started once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.workers import WHOLE, order_of, unit_of

# Session fixtures that cost nothing in `make test`, by the file that has them.
CHEAP = {"tests/client/conftest.py": "Java's servers, which only `make test-sdk-java` starts, in one process"}
CONFTESTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.glob("tests/*/conftest.py")}


def shared_by_session(texts: dict[str, str]) -> set[str]:
    """Return the conftest files that have a fixture of the session, and those that import from one of them."""
    own = {name for name, text in texts.items() if 'scope="session"' in text} - CHEAP.keys()
    modules = {name.removesuffix(".py").replace("/", ".") for name in own}
    return own | {name for name, text in texts.items() if modules & set(re.findall(r"^from (\S+) import", text, re.M))}


def test_fixtures_of_the_session_are_in_folders_that_one_worker_runs() -> None:
    shared = shared_by_session(CONFTESTS)
    assert {name for name in shared if unit_of(f"{Path(name).parent.as_posix()}/test_x.py::test") not in WHOLE} == set()
    assert {"tests/interop/conftest.py", "tests/spark/conftest.py", "tests/pipelines/conftest.py"} <= shared


def test_every_folder_of_a_unit_exists() -> None:
    assert [folder for folders in WHOLE.values() for folder in folders if not (ROOT / folder).is_dir()] == []


def test_the_check_can_fail() -> None:
    texts = {
        "tests/new/conftest.py": '@pytest.fixture(scope="session")\ndef jvm() -> None: ...',
        "tests/other/conftest.py": "from tests.new.conftest import jvm",
        "tests/third/conftest.py": "import pytest",
    }
    assert shared_by_session(texts) == {"tests/new/conftest.py", "tests/other/conftest.py"}


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/pipelines/test_dlq.py::test_a[x::y]", "spark"),
        ("tests/store/log/test_a.py::test_a[x/y]", "tests/store/log/test_a.py"),
        ("tests/test_files.py::test_a", "tests/test_files.py"),
    ],
)
def test_what_goes_together(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_whole_folders_come_before_files() -> None:
    assert [order_of(f"tests/{folder}/test_x.py::test") for folder in ("interop", "pipelines", "broker")] == [0, 1, 4]


def test_a_suite_whose_worker_ends_runs_all_the_rest_once_and_comes_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests import workers\n\n\n"
        "def pytest_xdist_make_scheduler(config, log):\n"
        "    return workers.Units(config, log)\n"
    )
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(
            "import os\n\nimport pytest\n\n\n"
            "@pytest.mark.parametrize('number', range(6))\n"
            "def test_one(number, request):\n"
            "    with open('ran', 'a') as ran:\n"
            "        ran.write(request.node.nodeid + '\\n')\n"
            f"    if {name!r} == 'c' and number == 3:\n"
            "        os._exit(1)\n"
        )
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert re.search(r"1 failed, 23 passed", told.stdout), told.stdout + told.stderr
    ran = (tmp_path / "ran").read_text().splitlines()
    assert sorted(ran) == sorted({f"test_{name}.py::test_one[{number}]" for name in "abcd" for number in range(6)})
