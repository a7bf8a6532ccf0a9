"""Command lines are read as commons-cli reads them."""

from __future__ import annotations

import pytest

from pyromq.mqadmin.options import BROKER_OR_CLUSTER, UsageError, parse, table

OPTIONS = table(
    [
        BROKER_OR_CLUSTER,
        "-t topic=  ",
        "[-a attributes=]  ",
        "[-s timestamp=]  ",
        "[-bn brokerName=]  ",
        "[-e endTimestamp =]  ",
        "[- extra=]  ",
        "[-l list]  ",
    ]
)


@pytest.mark.parametrize(
    "words",
    [
        "-b x -t T",
        "-bx -tT",
        "-b=x -t=T",
        "--brokerAddr x --topic T",
        "--brokerAddr=x --topic=T",
        "--brokerA x --top T",
        "-brokerAddr x -topic T",
        "-t T -t other -b x",
    ],
)
def test_the_ways_to_give_a_value(words: str) -> None:
    assert parse(OPTIONS, words.split()) == {"b": "x", "t": "T"}


@pytest.mark.parametrize(("word", "value"), [("-1", "-1"), ("-message.type", "-message.type"), ("+k=v", "+k=v")])
def test_a_value_may_look_like_an_option_that_is_none(word: str, value: str) -> None:
    assert parse(OPTIONS, ["-t", "T", "-b", "x", "-a", word])["a"] == value


def test_options_of_two_letters_and_without_a_short_name() -> None:
    chosen = parse(OPTIONS, ["-t", "T", "-b", "x", "-bn", "name", "--extra", "y", "--endTimestamp", "5", "-l"])
    assert chosen == {"t": "T", "b": "x", "bn": "name", "extra": "y", "e": "5", "l": ""}


def test_blanks_around_a_value_are_cut_off() -> None:
    assert parse(OPTIONS, ["-t", " T ", "-b", "x"])["t"] == "T"


def test_words_of_no_option_are_kept_apart() -> None:
    assert parse(OPTIONS, ["-t", "T", "-b", "x", "-l", "stray"]).stray == ["stray"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("-b x", "Missing required option: t"),
        ("-t T", "Missing required option: [-b the broker, host:port, -c the cluster: all its masters]"),
        ("-t T -b x -c y", "The option 'c' was specified but an option from this group has already been selected: 'b'"),
        ("-t T -b x -z", "Unrecognized option: -z"),
        ("-t T -b x --nothing", "Unrecognized option: --nothing"),
        ("-t T -b x --e 1", "Ambiguous option: '--e' (could be: 'endTimestamp', 'extra')"),
        ("-t T -b x -a", "Missing argument for option: a"),
        ("-t T -b x -a -l", "Missing argument for option: a"),
        ("-t T -b x --list=1", "Unrecognized option: --list=1"),
    ],
)
def test_what_does_not_fit_is_named(words: str, text: str) -> None:
    with pytest.raises(UsageError) as fault:
        parse(OPTIONS, words.split())
    assert str(fault.value) == text


def test_help_needs_no_other_option() -> None:
    assert "h" in parse(OPTIONS, ["-h"])
