"""Recorded frames, mutated: whatever arrives ends as commands or in a clean error, within bounded memory.

    python -m tests.protocol.fuzz --count 1000000 --seed 1

Case n of a seed is always the same bytes (`--case n` runs it alone). A find is written to tests/protocol/finds/ and is
run by the test suite from then on (test_fuzz.py), with a share of the mutations.
"""

from __future__ import annotations

import argparse
import random
import resource
import struct
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from pyromq.errors import Malformed, ProtocolError
from pyromq.protocol.bodies.body import decode_body, encode_body
from pyromq.protocol.bodies.registration import encode_registration
from pyromq.protocol.command import Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.json import Dialect
from pyromq.protocol.requests import ROWS
from tests.protocol.recorded import Recorded, recorded_frames
from tests.wire import FrameDecoder, decode_registration

FINDS = Path(__file__).parent / "finds"
MEMORY_BYTES = 512 << 20  # beyond what the process has at the start
INTERESTING = (0, 1, 4, 7, 8, 127, 128, 255, 256, 32767, 65535, 1 << 20, (1 << 24) - 1, 1 << 24, (1 << 31) - 1, 1 << 31)
TOKENS = [
    *(b"{", b"}", b"[", b"]", b":", b",", b'"', b"'", b"\\", b"\\u", b"\\ud800", b"/*", b"*/", b"//", b"\0", b"\x80"),
    *(
        b"null",
        b"true",
        b"NaN",
        b"1e999",
        b"-",
        b"0:",
        b'{"a":1}:',
        b'"x":',
        b"99999999999999999999",
        b"\xff\xff",
        b"L",
    ),
    *(
        b"[" * 20_000,
        b'{"a":' * 2000,
        b"[" * 70,
        b"{" * 40,
        b"\\" * 33,
        b'"extFields":',
        b'"code":',
        b'"remark":null,',
        b"\xed\xa0\x80",
    ),
]


def mutated(seed: int, case: int) -> tuple[Recorded, bytes]:
    """Case `case` of `seed`: a recorded frame and what has become of it."""
    rng = random.Random(seed * 1_000_003 + case)
    corpus = recorded_frames()
    frame = rng.choice(corpus)
    aim = rng.random()
    if aim < 0.3:
        wire = _mutate(rng, frame.wire, corpus)
        if rng.random() < 0.5:
            _mend_lengths(rng, wire, len(frame.header_bytes))
        return frame, bytes(wire)
    # Inside the header or the body, with length words that fit: so that what reads them is reached.
    header, body = bytearray(frame.header_bytes), bytearray(frame.body)
    if body and aim < 0.7:
        body = _mutate(rng, body, corpus)
    else:
        header = _mutate(rng, header, corpus)
    words = struct.pack(">iI", 4 + len(header) + len(body), frame.wire[4] << 24 | len(header))
    return frame, words + header + body


def _mutate(rng: random.Random, data: bytes | bytearray, corpus: list[Recorded]) -> bytearray:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        rng.choice(MUTATIONS)(rng, changed, corpus)
    return changed


def run_case(frame: Recorded, wire: bytes) -> str:
    """How it ended. All but ProtocolError and Malformed is a find, and so is a command that changes on its way."""
    try:
        commands = FrameDecoder().feed(wire)
    except ProtocolError:
        return "broken frame"
    outcomes = {_through_types(frame, command) for command in commands}
    for command in commands:
        _there_and_back(command)
    return "malformed" if "malformed" in outcomes else "whole" if commands else "waits for more"


def _there_and_back(command: Command) -> None:
    known = msgspec.structs.replace(command, language=command.language or 0)
    again = FrameDecoder().feed(encode_frame(known))
    if again != [known]:
        raise AssertionError(f"{known} came back as {again}")


def _through_types(frame: Recorded, command: Command) -> str:
    """The command as every type that it could be: of its own code and of the frame that it was."""
    outcomes = {"whole"}
    for code in {command.code, frame.request_code}:
        row = ROWS.get(code)
        for content in () if row is None else (row.takes, row.gives):
            if content.header is not None:
                outcomes.add(_attempt(_header, content.header, command))
            if content.is_json and command.body:
                outcomes.add(_attempt(_body, content.body, command))
    return min(outcomes)


def _attempt(run: Any, kind: Any, command: Command) -> str:
    try:
        run(kind, command)
    except Malformed:
        return "malformed"
    return "whole"


def _header(kind: Any, command: Command) -> None:
    header = kind.from_fields(command.fields)
    if kind.from_fields(header.to_fields()) != header:
        raise AssertionError(f"{header} came back changed")


def _body(kind: Any, command: Command) -> None:
    data = bytes(command.body)
    if command.code == 103:
        registration = decode_registration(data, command.version, command.fields.get("compressed") == "true")
        encode_registration(registration, compressed=True)
    body = decode_body(kind, data)
    for dialect in Dialect:
        if decode_body(kind, encode_body(body, dialect)) != body:
            raise AssertionError(f"{body} came back changed in {dialect}")


# --- mutations -------------------------------------------------------------------------------------------------------


def _flip(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    if wire:
        wire[rng.randrange(len(wire))] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    if wire:
        wire[rng.randrange(len(wire))] = rng.randrange(256)


def _number(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    size = rng.choice((2, 4))
    if len(wire) >= size:
        at = rng.randrange(len(wire) - size + 1)
        wire[at : at + size] = (rng.choice(INTERESTING) & (1 << 8 * size) - 1).to_bytes(size, "big")


def _cut(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    at = rng.randrange(len(wire) + 1)
    del wire[at : at + rng.randrange(1, 30)]


def _end(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    del wire[rng.randrange(len(wire) + 1) :]


def _repeat(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    at = rng.randrange(len(wire) + 1)
    wire[at:at] = wire[at : at + rng.randrange(1, 60)] * rng.choice((1, 1, 2, 50))


def _token(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    at = rng.randrange(len(wire) + 1)
    wire[at:at] = rng.choice(TOKENS)


def _replace_token(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    """One of the characters that structure JSON becomes something else."""
    places = [at for at, byte in enumerate(wire) if byte in b'{}[]:,"']
    if places:
        at = rng.choice(places)
        wire[at : at + 1] = rng.choice(TOKENS)


def _noise(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    at = rng.randrange(len(wire) + 1)
    wire[at:at] = rng.randbytes(rng.randrange(1, 20))


def _splice(rng: random.Random, wire: bytearray, corpus: list[Recorded]) -> None:
    """A piece of another frame."""
    other = rng.choice(corpus).wire
    start = rng.randrange(len(other))
    at = rng.randrange(len(wire) + 1)
    wire[at : at + rng.randrange(50)] = other[start : start + rng.randrange(200)]


def _follow(rng: random.Random, wire: bytearray, corpus: list[Recorded]) -> None:
    """Another frame behind it."""
    wire += rng.choice(corpus).wire


def _other_body(rng: random.Random, wire: bytearray, corpus: list[Recorded]) -> None:
    """The body of another frame."""
    if len(wire) >= 8:
        del wire[8 + (struct.unpack_from(">I", wire, 4)[0] & 0xFFFFFF) :]
        wire += rng.choice(corpus).body


def _other_encoding(rng: random.Random, wire: bytearray, _: list[Recorded]) -> None:
    if len(wire) > 4:
        wire[4] = rng.choice((0, 1, 2, 255))


MUTATIONS = (
    *(_flip, _set, _number, _cut, _end, _repeat, _token, _replace_token),
    *(_noise, _splice, _follow, _other_body, _other_encoding),
)


def _mend_lengths(rng: random.Random, wire: bytearray, header_length: int) -> None:
    """Length words that fit again, so that what is inside is reached."""
    if len(wire) >= 8:
        header_length = min(len(wire) - 8, header_length + rng.choice((0, 0, 0, -1, 1, 5)))
        struct.pack_into(">iI", wire, 0, len(wire) - 4, wire[4] << 24 | max(header_length, 0))


# --- the run ---------------------------------------------------------------------------------------------------------


def run(seed: int, first: int, count: int) -> tuple[Counter[str], list[tuple[int, BaseException]]]:
    """Outcomes, and the cases that ended in anything else."""
    outcomes: Counter[str] = Counter()
    finds: list[tuple[int, BaseException]] = []
    for case in range(first, first + count):
        frame, wire = mutated(seed, case)
        try:
            outcomes[run_case(frame, wire)] += 1
        except Exception as find:
            finds.append((case, find))
            keep(frame, wire)
    return outcomes, finds


def keep(frame: Recorded, wire: bytes) -> Path:
    """A find as a file: the number of the recorded line, then the frame in hex."""
    path = FINDS / f"line{frame.line}-{wire[:64].hex()[:24]}-{len(wire)}.txt"
    path.write_text(f"{frame.line}\n{wire.hex()}\n", encoding="ascii")
    return path


def kept() -> list[tuple[str, Recorded, bytes]]:
    """All finds so far."""
    found = []
    for path in sorted(FINDS.glob("*.txt")):
        line, wire = path.read_text(encoding="ascii").split()
        found.append((path.stem, recorded_frames()[int(line) - 1], bytes.fromhex(wire)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run this one alone and let its exception through")
    options = parser.parse_args()
    if options.case is not None:
        frame, wire = mutated(options.seed, options.case)
        print(frame, wire, run_case(frame, wire), sep="\n")
        return 0
    recorded_frames()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    resource.setrlimit(resource.RLIMIT_DATA, (before + MEMORY_BYTES, resource.RLIM_INFINITY))
    start = time.process_time()
    outcomes, finds = run(options.seed, 0, options.count)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    print(f"{options.count} mutated frames, seed {options.seed}: {dict(outcomes)}, {len(finds)} finds")
    print(f"{time.process_time() - start:.0f} s of CPU, memory grew by {grown / (1 << 20):.1f} MiB")
    for case, find in finds[:20]:
        print(f"case {case}: {type(find).__name__}: {str(find)[:200]}")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
