"""A misspelt status or type is refused before any server is asked: Apache's take it as not given, with success."""

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
