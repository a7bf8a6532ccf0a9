"""What came from elsewhere cannot act on the terminal, the line, the file system that it is shown on."""

from __future__ import annotations

import json
import shlex
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest

from pyromq.model.foreign_text import file_name, in_html, one_line, shell_word, visible

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\u200b\u2066\ufeff\r\x00\x7f\u2028\U000e0041"


def test_what_moves_a_terminal_is_shown_as_an_escape() -> None:
    assert visible("\x1b[2J") == "\\x1b[2J"
    assert visible("a\u202eb\x9b\x7f") == "a\\u202eb\\u009b\\u007f"
    assert visible("line\r\n\tnext\n") == "line\r\n\tnext\n"
    assert visible("shown\rhidden") == "shown\\x0dhidden"
    assert one_line("line\n\tnext\r") == "line\\n\\tnext\\x0d"


def test_honest_text_stays_as_it_is() -> None:
    for text in ("TopicTest", "%RETRY%group|x-1", "中文 text", "żółw ñ", "emoji 🎉", "192.0.2.2@31#99", "[red]", ""):
        assert visible(text) == one_line(text) == text


def test_no_control_or_format_character_is_left_out() -> None:
    """Arabic number signs and hieroglyph joiners are format characters too, but seen."""
    seen = {
        "\u0600",
        "\u0601",
        "\u0602",
        "\u0603",
        "\u0604",
        "\u0605",
        "\u06dd",
        "\u070f",
        "\u0890",
        "\u0891",
        "\u08e2",
    }
    for code in range(0x11000):
        one = chr(code)
        if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp", "Cs") and one not in seen:
            assert one_line(one) != one, hex(code)
            assert one_line(one).isascii()
            assert one_line(one).isprintable()


def test_json_stays_json_of_the_same_value() -> None:
    value = {HOSTILE: [HOSTILE]}
    for text in (json.dumps(value, ensure_ascii=False), msgspec.json.encode(value).decode()):
        assert visible(text).isprintable()
        assert json.loads(visible(text)) == value


@pytest.mark.parametrize(
    "name", ["C000020240734E0E2F2A4C2B7AD50000", "192.0.2.2@GID_live", "fe80::1%eth0@7#12", "%RETRY%group", "a.b_1"]
)
def test_honest_ids_are_names_of_files_as_they_are(name: str) -> None:
    assert file_name(name) == name


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        "../../x",
        "..",
        ".",
        ".bashrc",
        "a/../b",
        "a\\b",
        "-rf",
        "a\x00b",
        "\ud800",
        "a\nb",
        "$(id)",
        "%2F",
        "",
    ],
)
def test_a_path_becomes_the_name_of_one_file(text: str, tmp_path: Path) -> None:
    name = file_name(text)
    path = tmp_path / name
    assert path.parent == tmp_path
    assert path.name == name
    assert name.isascii()
    assert not name.startswith((".", "-"))
    assert not text or unquote(name, errors="surrogatepass") == text
    path.write_bytes(b"")
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_long_texts_have_short_names_that_differ() -> None:
    names = {file_name("\u00e9" * count) for count in (100, 1_000, 1_001, 100_000)}
    assert len(names) == 4
    assert max(map(len, names)) <= 200


@pytest.mark.parametrize(
    "name", ["broker-a", "%RETRY%group", "a|sh", "x; rm -rf ~", "$(id)", "`id`", "it's", "a b", "", "-rf"]
)
def test_a_name_in_a_command_to_copy_is_one_word(name: str) -> None:
    assert shlex.split(f"pyromq topic perm {shell_word(name)} rw") == ["pyromq", "topic", "perm", name, "rw"]
    assert shell_word("broker-a") == "broker-a"
    assert "\n" not in shell_word("a\nrm -rf ~")


def test_a_name_on_a_page_is_text() -> None:
    assert in_html("<b onclick='x'>&\x1b") == "&lt;b onclick=&#x27;x&#x27;&gt;&amp;\\x1b"
