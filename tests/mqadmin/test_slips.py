"""A misspelt status or type, and an end of oneself, are refused before servers are asked (Apache's answer success)."""

from __future__ import annotations

import pytest

from .conftest import call

NOWHERE = ("-n", "127.0.0.1:1", "-b", "127.0.0.1:1", "-u", "frank")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("updateUser", "-s", "disabled"), "userStatus 'disabled' is not known: it is enable or disable"),
        (("updateUser", "-t", "Supper"), "userType 'Supper' is not known: it is Super or Normal"),
        (("createUser", "-p", "x", "-t", "Supper"), "userType 'Supper' is not known: it is Super or Normal"),
    ],
)
def test_a_misspelt_word_of_a_user_is_refused(words: tuple[str, ...], why: str) -> None:
    shown = call(*words, *NOWHERE)
    assert why in shown.out + shown.err


@pytest.mark.parametrize("words", [("deleteUser",), ("updateUser", "-s", "disable"), ("updateUser", "-t", "normal")])
def test_nobody_shuts_himself_out(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", "frank")
    monkeypatch.setenv("PYROMQ_SECRET_KEY", "his secret")
    shown = call(*words, *NOWHERE)
    assert "you are frank: nobody is to" in shown.out + shown.err
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", "another")
    shown = call(*words, *NOWHERE)
    assert "nobody is to" not in shown.out + shown.err
