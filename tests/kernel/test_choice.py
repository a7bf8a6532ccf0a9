"""Which kernel serves, and what is said if the one that is asked for is not there."""

from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.kernel import choice


@pytest.mark.parametrize(
    ("wanted", "built", "serves"),
    [("", True, "native"), ("", False, "python"), ("python", True, "python"), ("native", True, "native")],
)
def test_the_native_one_serves_where_it_was_built_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, wanted: str, built: bool, serves: str
) -> None:
    monkeypatch.setenv(choice.VARIABLE, wanted)
    monkeypatch.setattr(choice, "is_built", lambda: built)
    assert choice.kernel_name() == serves


@pytest.mark.parametrize(("wanted", "says"), [("native", "make native"), ("rust", "python or native")])
def test_a_forced_kernel_that_is_missing_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, wanted: str, says: str
) -> None:
    monkeypatch.setenv(choice.VARIABLE, wanted)
    monkeypatch.setattr(choice, "is_built", lambda: False)
    with pytest.raises(ConfigError, match=f"PYROMQ_KERNEL={wanted}.*{says}"):
        choice.kernel_name()
