"""JSON in fastjson's dialect: read whatever Java would, within bounds, and say where it is wrong."""

from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ProtocolError
from pyromq.protocol.fastjson import quote_keys, standard_json
from pyromq.protocol.json import ANSWER_LIMITS, DEFAULT_LIMITS, JsonLimits, parse_json, read_json
from tests.cpu_time import cpu_s

values = st.recursive(
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def scanned(text: bytes) -> bytes:
    limits = DEFAULT_LIMITS
    return standard_json(text, longest=limits.scanned_bytes, most_steps=limits.scanned_steps, deepest=limits.depth)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # numeric keys, as Java writes Map<Long, ...>
        (b'{0:"127.0.0.1:10911",1:"b"}', {"0": "127.0.0.1:10911", "1": "b"}),
        (b"{-1:2,1.5:3}", {"-1": 2, "1.5": 3}),
        # object keys, raw and quoted
        (b'{{"queueId":0,"topic":"T"}:7}', {'{"queueId":0,"topic":"T"}': 7}),
        (rb'{"{\"queueId\":0}":7}', {'{"queueId":0}': 7}),
        (b"{ {'queueId' : 0 } : 7 }", {'{"queueId":0}': 7}),
        (b'{[1,2]:"list"}', {"[1,2]": "list"}),
        # names without quotes, single quotes
        (b"{a:1,b_2:2,$c:3,d.e:4}", {"a": 1, "b_2": 2, "$c": 3, "d.e": 4}),
        (b"{'a':'it''s' }", None),
        (rb"{'a':'it\'s \"x\"'}", {"a": 'it\'s "x"'}),
        # commas and comments
        (b"{,a:1,,b:[1,,2,],}", {"a": 1, "b": [1, 2]}),
        (b"[1, // one\n 2 /* two */]", [1, 2]),
        # numbers
        (b"[01,-0,+5,7L,2.5F,1.,1e2]", [1, 0, 5, 7, 2.5, 1.0, 100.0]),
        # words
        (b"[true,false,null,NaN,undefined]", [True, False, None, None, None]),
        (b"{a:null,b:NaN,c:1}", {"c": 1}),
        (b"{null:1,true:2}", {"null": 1, "true": 2}),
        # strings
        (b'["a\nb\tc"]', ["a\nb\tc"]),
        (rb'["\x41\v\0\a\/\u00e9\ud83d\ude00"]', ["A\v\0a/é😀"]),
        (rb'["\ud800 alone"]', ["\ufffd alone"]),
        (b'{a:"\xb2\xe2"}', {"a": "\ufffd\ufffd"}),
        # around it
        (b"\xef\xbb\xbf {a:1} \r\n", {"a": 1}),
        (b"'x'", "x"),
    ],
)
def test_the_dialect(text: bytes, value: object) -> None:
    if value is None:
        with pytest.raises(ProtocolError, match="was expected"):
            parse_json(text)
    else:
        assert parse_json(text) == value
        assert json.loads(scanned(text)) == value


@given(values)
def test_standard_json_reads_as_itself(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value


@given(values)
def test_the_scanner_agrees_with_the_fast_parser(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=2)):
        assert json.loads(scanned(text.encode())) == value


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b'{0:"a",-1:"b"}', b'{"0":"a","-1":"b"}'),
        (b'{"t":{{"q":0,"t":"x}:"}:7,{"q":1}:8}}', rb'{"t":{"{\"q\":0,\"t\":\"x}:\"}":7,"{\"q\":1}":8}}'),
        (b'{"a":"{0:1,2:3}","b":[{"c":1},{"d":2}],"e":{}}', b'{"a":"{0:1,2:3}","b":[{"c":1},{"d":2}],"e":{}}'),
        (rb'{"a\"{0:":1,2:3}', rb'{"a\"{0:":1,"2":3}'),
        (b"no json at all", b"no json at all"),
        (b'{"open,0:', b'{"open,0:'),
    ],
)
def test_odd_keys_are_quoted_outside_of_strings_only(text: bytes, quoted: bytes) -> None:
    assert quote_keys(text, DEFAULT_LIMITS.quoted_keys) == quoted


@given(values)
def test_quoting_keys_leaves_standard_json_alone(value: object) -> None:
    text = json.dumps(value, separators=(",", ":")).encode()
    assert quote_keys(text, DEFAULT_LIMITS.quoted_keys) == text


@given(st.binary(max_size=60) | st.text("{}[]:,'\"\\ 01aeN.-+/*\n", max_size=40).map(str.encode))
def test_any_text_is_a_value_or_a_protocol_error(text: bytes) -> None:
    try:
        standard = scanned(text)
    except ProtocolError:
        return
    parse_json(standard)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "a value was expected, but the text ends at character 0"),
        (b"{", "'}' was expected, but the text ends at character 1"),
        (b'{"a"}', "at character 4: ':' was expected behind a key, found '}'"),
        (b'{"a":}', "at character 5: a value was expected, found '}'"),
        (b'{"a":1 "b":2}', "at character 7: ',' or '}' was expected"),
        (b"[1 2]", "at character 3: ',' or ']' was expected"),
        (b"{]", "at character 1: a key was expected, found ']'"),
        (b'{"a":"x', "at character 5: the string does not end"),
        (b"{a:tru}", "at character 3: a value was expected, found 'tru}'"),
        (b"[12abc]", "at character 1: a value was expected"),
        (b"{} {}", "at character 3: the end was expected"),
        (b"[" + b"9" * 65 + b",]", "a number of more than 64 characters"),
        (b"[1e999,]", "out of range"),
        (b"{/*", "a key was expected"),
        (b"['" + b"x" * (1 << 20) + b"y']", "too large to be read as fastjson's dialect"),
        (
            b"['" + b"x" * (64 << 10) + b"y']",
            "bytes that are no standard JSON, the limit of the dialect is 65536",
        ),
        (b"[\xd9\xa1]", "a value was expected"),
    ],
)
def test_what_is_wrong_and_where(text: bytes, words: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        parse_json(text)
    assert words in str(raised.value)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"{a:"])
def test_depth_is_bounded(opening: bytes) -> None:
    with pytest.raises(ProtocolError, match="nested deeper than 64"):
        parse_json(opening * 10_000)


def test_keys_inside_keys_are_refused_before_they_grow() -> None:
    """Each level would double the backslashes of the one below."""
    with pytest.raises(ProtocolError, match="an object key inside an object key"):
        parse_json(b"{" * 40 + b"1:2" + b"}:1" * 39 + b"}")


def test_the_number_of_values_is_bounded() -> None:
    few = JsonLimits(values=1000, quoted_keys=20, scanned_steps=10)
    with pytest.raises(ProtocolError, match="JSON with up to 2001 values, the limit is 1000"):
        parse_json(b"[" + b"0," * 2000 + b"0]", few)
    with pytest.raises(ProtocolError, match="more than 10 values, keys and commas"):
        parse_json(b"[" + b"0," * 100 + b"]", few)
    with pytest.raises(ProtocolError, match="more than 20 keys that are no strings"):
        parse_json(b"{" + b",".join(b"%d:0" % n for n in range(21)) + b"}", few)
    assert len(parse_json(b"{" + b",".join(b"%d:0" % n for n in range(20)) + b"}", few)) == 20
    assert len(parse_json(b"[" + b"0," * 900 + b"0]", few)) == 901


HOSTILE = {
    "commas": b"{" + b"," * 3_900_000 + b"}",
    "commas in an array": b"[" + b"," * 3_900_000 + b"]",
    "a few commas less": b"{" + b"," * 190_000 + b"}",
    "blanks": b"{" + b" " * 3_900_000 + b"x",
    "comments": b"{" + b"/**/" * 900_000 + b"}",
    "empty objects": b"[" + b"{}," * 1_300_000 + b"]",
    "keys without quotes": b"{" + b",".join(b"%d:0" % number for number in range(300_000)) + b"}",
    "objects as keys": b"{" + b"{a:1}:1," * 100_000 + b"}",
    "no UTF-8": b"{" + b",".join(b'"%x":"\xff"' % number for number in range(50_000)) + b",}",
    "escapes in single quotes": b"['" + b"\\x41" * 900_000 + b"']",
    "strings and a stray comma": b"[" + b'"",' * 150_000 + b"]",
    "steps": b"[" + b"'a'," * 15_000 + b"]",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_text_is_refused_before_work_is_spent_on_it(what: str) -> None:
    """They cost 0.1 to 3 s of the loop once; now all are refused within milliseconds. The margin is wide."""

    def refused() -> None:
        with pytest.raises(ProtocolError):
            parse_json(HOSTILE[what])

    assert cpu_s(refused) < 0.15


def test_nulls_in_a_large_body_are_left_out_as_java_does() -> None:
    text = b"{" + b",".join(b'"%d":null' % number for number in range(9_000)) + b',"a":{"b":null,"c":[1,null]}}'
    assert read_json(msgspec.json.Decoder(dict[str, dict[str, list[int | None]]]).decode, text, JsonLimits()) == {
        "a": {"c": [1, None]}
    }


def test_a_tool_reads_tables_that_nobody_may_send() -> None:
    text = b"{" + b",".join(b"%d:0" % number for number in range(100_000)) + b"}"
    assert len(parse_json(text, ANSWER_LIMITS)) == 100_000
    with pytest.raises(ProtocolError, match="too large to be read as fastjson's dialect"):
        parse_json(text)


def test_a_long_string_costs_no_more_than_itself() -> None:
    text = b'[, "' + b"\\n" * (1 << 20) + b'"]'
    tracemalloc.start()
    try:
        (value,) = parse_json(text, ANSWER_LIMITS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(value) == 1 << 20
    assert peak < 64 << 20
