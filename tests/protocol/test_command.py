"""The header in both encodings: what can be said goes there and back, and what clients really send is read."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.model.client_info import Language
from pyromq.protocol.command import Command, Encoding, decode_header, encode_header
from tests.cpu_time import cpu_s

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int16 = st.integers(-(1 << 15), (1 << 15) - 1)
text = st.text(st.characters(exclude_categories=["Cs"]))
short_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
languages = st.sampled_from(Language)


def back(command: Command) -> Command:
    return decode_header(command.encoding, encode_header(command), max_fields=1024)


@given(
    st.builds(
        Command,
        code=int32,
        opaque=int32,
        flag=int32,
        language=languages,
        version=int32,
        remark=st.none() | text,
        fields=st.dictionaries(short_text, text, max_size=8),
    )
)
def test_json_goes_there_and_back(command: Command) -> None:
    assert back(command) == command


@given(
    st.builds(
        Command,
        code=int16,
        opaque=int32,
        flag=int32,
        language=languages,
        version=int16,
        remark=st.none() | text.filter(bool),  # no text and no remark are the same here
        fields=st.dictionaries(short_text, text.filter(bool), max_size=8),
        encoding=st.just(Encoding.ROCKETMQ),
    )
)
def test_binary_goes_there_and_back(command: Command) -> None:
    assert back(command) == command


@given(st.sampled_from(Encoding), st.binary(max_size=300))
def test_any_bytes_are_a_command_or_a_protocol_error(encoding: Encoding, header: bytes) -> None:
    try:
        command = decode_header(encoding, header, max_fields=1024)
    except ProtocolError:
        return
    assert back(command).fields == command.fields


def json_header(header: bytes, max_fields: int = 1024) -> Command:
    return decode_header(Encoding.JSON, header, max_fields)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b'"false"', "false"),
        (b"false", "false"),
        (b"true", "true"),
        (b'"0"', "0"),
        (b"0", "0"),
        (b"-1", "-1"),
        (b"1794769118114", "1794769118114"),
        (b"1.5", "1.5"),
        (b'""', ""),
    ],
)
def test_fields_are_text_whatever_the_client_sends(sent: bytes, read: str) -> None:
    assert json_header(b'{"code":10,"extFields":{"k":' + sent + b"}}").fields == {"k": read}


def test_null_is_absent() -> None:
    command = json_header(
        b'{"code":10,"language":null,"remark":null,"extFields":{"a":null,"b":"x"},"opaque":null,"version":null}'
    )
    assert command == Command(code=10, language=None, version=0, fields={"b": "x"})


@pytest.mark.parametrize("fields", [b"", b'"extFields":{},', b'"extFields":null,'])
def test_fields_may_be_empty_or_absent(fields: bytes) -> None:
    assert json_header(b'{"code":34,' + fields + b'"opaque":5}').fields == {}


def test_unknown_members_are_ignored_and_unknown_fields_kept() -> None:
    command = json_header(
        b'{"code":10,"serializeTypeCurrentRPC":"JSON","suspended":false,"extFields":{"ReqT":"0","AccessKey":"me"}}'
    )
    assert command.fields == {"ReqT": "0", "AccessKey": "me"}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b'"JAVA"', Language.JAVA),
        (b'"CPP"', Language.CPP),
        (b"9", Language.GO),
        (b'"COBOL"', None),
        (b"99", None),
    ],
)
def test_languages_by_name_or_number_and_unknown_ones(sent: bytes, read: Language | None) -> None:
    assert json_header(b'{"code":10,"language":' + sent + b"}").language is read


def test_an_unknown_language_goes_out_as_other() -> None:
    for encoding in Encoding:
        assert back(Command(code=1, language=None, encoding=encoding)).language is Language.OTHER


def test_a_header_in_fastjsons_dialect() -> None:
    command = json_header(b"{code:105,'opaque':7,extFields:{topic:'T',n:1,},/* x */flag:0,}")
    assert (command.code, command.opaque, command.fields) == (105, 7, {"topic": "T", "n": "1"})


def test_text_that_is_not_utf8_arrives_damaged_as_in_java() -> None:
    assert json_header(b'{"code":1,"extFields":{"k":"\xb2\xe2"}}').fields == {"k": "��"}
    binary = encode_header(Command(code=1, fields={"k": "AB"}, encoding=Encoding.ROCKETMQ)).replace(b"AB", b"\xb2\xe2")
    assert decode_header(1, binary, 10).fields == {"k": "��"}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"", "ends at character 0"),
        (b"{", "was expected"),
        (b"null", "Expected `object`"),
        (b'{"code":2147483648}', r"<= 2147483647.*code"),
        (b'{"opaque":-2147483649}', r">= -2147483648.*opaque"),
        (b'{"code":"x"}', r"Expected `int`.*code"),
        (b'{"extFields":{"a":{"b":1}}}', "extFields"),
        (b'{"extFields":[]}', "Expected `object`, got `array`.*extFields"),
        (b'{"remark":{}}', "remark"),
        (b'{"extFields":{"a":1e999}}', "range"),
        (b'{"x":' + b"[" * 50_000, "nested deeper than 64"),
    ],
)
def test_a_broken_json_header_is_refused_in_words(header: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        json_header(header)


def binary_header(remark: bytes = b"", block: bytes = b"", *, remark_length: int = -2, block_length: int = -2) -> bytes:
    remark_length = len(remark) if remark_length == -2 else remark_length
    block_length = len(block) if block_length == -2 else block_length
    head = struct.pack(">hBhii", 10, 0, 513, 7, 0)
    return head + struct.pack(">i", remark_length) + remark + struct.pack(">i", block_length) + block


FIELD = b"\0\1k\0\0\0\1v"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"", "ends early, it has 0 bytes"),
        (binary_header()[:-1], "ends early"),
        (binary_header(remark_length=-1), "remark of -1 bytes"),
        (binary_header(remark_length=1 << 30), "remark of 1073741824 bytes"),
        (binary_header(block_length=-1), "field block of -1 bytes"),
        (binary_header(block=FIELD, block_length=9), "field block of 9 bytes in a header with 8 left"),
        (binary_header(block=FIELD, block_length=7), "leaves the block of fields"),
        (binary_header(block=FIELD, block_length=3), "leaves the block of fields"),
        (binary_header(block=b"\xff\xff" + FIELD), "leaves the block|ends early"),
        (binary_header(block=b"\0\1k\xff\xff\xff\xff"), "leaves the block of fields"),
        (binary_header(block=b"\0\1k\x7f\xff\xff\xff"), "leaves the block of fields"),
        (binary_header(block=b"\x7f\xff"), "ends early"),
    ],
)
def test_a_broken_binary_header_is_refused_in_words(header: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        decode_header(Encoding.ROCKETMQ, header, 10)


def test_bytes_behind_the_binary_fields_are_ignored_as_in_java() -> None:
    assert decode_header(1, binary_header(block=FIELD) + b"more", 10).fields == {"k": "v"}


def test_a_binary_value_of_no_length_is_absent() -> None:
    block = b"\0\1a\0\0\0\0" + FIELD + b"\0\1b\0\0\0\0"
    assert decode_header(1, binary_header(block=block), 10).fields == {"k": "v"}


@pytest.mark.parametrize("encoding", Encoding)
def test_the_number_of_fields_is_bounded(encoding: Encoding) -> None:
    command = Command(code=1, fields={str(n): "x" for n in range(11)}, encoding=encoding)
    with pytest.raises(ProtocolError, match="11 header fields, the limit is 10"):
        decode_header(encoding, encode_header(command), 10)


FIELDS = b",".join(b'"%x":""' % number for number in range(90_000))
HOSTILE_HEADERS = {
    "commas": b"{" + b"," * 900_000 + b"}",
    "fields": b'{"code":1,"extFields":{' + FIELDS + b"}}",
    "fields whose names end in a backslash": b'{"code":1,"extFields":{' + FIELDS.replace(b'":', b'\\\\":') + b"}}",
    "numbers": b'{"code":1,"extFields":{' + FIELDS.replace(b'""', b"1") + b"}}",
    "keys without quotes": b'{"extFields":{' + b",".join(b"%d:1" % number for number in range(90_000)) + b"}}",
    "escapes": b"{'" + b"\\x41" * 200_000 + b"':1}",
    "comments": b"{" + b"/**/" * 200_000 + b"}",
    "digits": b'{"code":' + b"9" * 900_000 + b"}",
}


@pytest.mark.parametrize("what", HOSTILE_HEADERS)
def test_a_hostile_json_header_is_refused_before_work_is_spent_on_it(what: str) -> None:
    """Up to half a second of the loop each, before anyone could be authenticated. The margin is wide."""

    def refused() -> None:
        with pytest.raises(ProtocolError):
            decode_header(0, HOSTILE_HEADERS[what], 1024)

    assert cpu_s(refused) < 0.1


@pytest.mark.parametrize("entry", [b"\0\1a\0\0\0\0", b"\0\1a\0\0\0\1b"])
def test_entries_of_a_binary_header_are_counted_while_they_are_read(entry: bytes) -> None:
    """Those of no length too, which leave nothing behind: 130,000 of them took 50 ms."""
    with pytest.raises(ProtocolError, match="at least 1025 header fields, the limit is 1024"):
        decode_header(1, binary_header(block=entry * 100_000), 1024)


def test_a_long_header_of_a_few_fields_is_read() -> None:
    """A quote in a value comes escaped, so that texts in texts are not taken for fields."""
    command = Command(code=1, fields={"i": '{"a":"b"}' * 20_000, "n": "," * 100_000})
    assert back(command).fields == command.fields
    loose = encode_header(command).replace(b'"code":1', b'"code":"1"')
    assert decode_header(0, loose, 1024).fields == command.fields


def test_a_code_over_16_bits_is_cut_in_the_binary_header_as_in_java() -> None:
    assert back(Command(code=200050, encoding=Encoding.ROCKETMQ)).code == 3442
    assert back(Command(code=200151, encoding=Encoding.ROCKETMQ)).code == 3543
    assert back(Command(code=200050)).code == 200050


def test_a_field_name_too_long_for_the_binary_header_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match="field name of 40000 bytes"):
        encode_header(Command(code=1, fields={"n" * 40_000: "x"}, encoding=Encoding.ROCKETMQ))
