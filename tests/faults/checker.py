"""Judges a run by what its clients wrote down, and by nothing that the product says of itself.

`sends.jsonl` and `got.jsonl` are of the load, `stored.jsonl` is all that the last master has, `faults.jsonl` says when
which fault was. What must not be: an acknowledged message that is not where it was said to be; one that was
acknowledged behind another of its key and stands before it; one that is there twice although it was tried once, or sent
with an id by which brokers know repeats; one that a consumer saw and that is not there; one that nobody sent, or whose
send failed with the word that it is not stored; one that the group never got, or got before what stands before it.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

Event = dict[str, Any]
NEAR_S = 0.5
MOST = 5  # of each kind that are told


def read_events(path: Path) -> list[Event]:
    """Return the events of a log. A last line that is torn is left out: its writer was ended there."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


@dataclass
class Verdict:
    """What was found. `broken` has one line for each promise that was not kept, and is empty after a good run."""

    acked: int = 0
    unknown: int = 0
    retried: int = 0
    duplicates: int = 0
    stored: int = 0
    broken: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # bodies
    out_of_order: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)  # as often as they are there once more
    redelivered_at: list[float] = field(default_factory=list)

    @property
    def redelivered(self) -> int:
        return len(self.redelivered_at)

    def breaks(self, what: str, found: Iterable[Any]) -> None:
        """Note a promise that was not kept, with the first cases of it."""
        cases = list(found)
        if cases:
            self.broken.append(f"{len(cases)} {what}: {', '.join(map(str, cases[:MOST]))}")


def judge(sends: list[Event], got: list[Event], stored: list[Event]) -> Verdict:
    """Return the verdict on one run."""
    acks = {_body(event): event for event in sends if event["event"] == "ack"}
    begun = {_body(event) for event in sends if event["event"] == "send"}
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    at: dict[tuple[int, int], str] = {}
    verdict = Verdict(acked=len(acks), unknown=len(begun) - len(acks))
    verdict.breaks("offsets with two messages", _note_places(stored, places, at))
    verdict.lost = [body for body in acks if body not in places]
    verdict.breaks("acked lost", verdict.lost)
    verdict.breaks("acked elsewhere than it is", _moved(acks, places))
    verdict.breaks("nobody sent", sorted(places.keys() - begun - {"first|0", "last|0"}))
    _judge_order(verdict, acks, places)
    _judge_duplicates(verdict, sends, places)
    _judge_consumers(verdict, got, at, acks)
    verdict.stored = len(at)
    verdict.retried = sum(event["tries"] > 1 for event in acks.values())
    return verdict


def _body(event: Event) -> str:
    return f"{event['key']}|{event['number']}"


def _note_places(
    stored: list[Event], places: dict[str, list[tuple[int, int]]], at: dict[tuple[int, int], str]
) -> list[tuple[int, int]]:
    twice = []
    for event in stored:
        place, body = (event["queue"], event["offset"]), event["body"]
        if at.setdefault(place, body) != body:
            twice.append(place)
        if place not in places[body]:
            places[body].append(place)
    return twice


def _moved(acks: dict[str, Event], places: dict[str, list[tuple[int, int]]]) -> list[str]:
    return [
        f"{body} at {event['queue']}/{event['offset']}"
        for body, event in acks.items()
        if body in places and (event["queue"], event["offset"]) not in places[body]
    ]


def _judge_order(verdict: Verdict, acks: dict[str, Event], places: dict[str, list[tuple[int, int]]]) -> None:
    """Look whether messages of one key stand in their queue as they were acknowledged, by the first copy of each."""
    by_key: dict[str, list[Event]] = defaultdict(list)
    for event in acks.values():
        by_key[event["key"]].append(event)
    broken = []
    for key, events in by_key.items():
        events.sort(key=lambda event: int(event["number"]))
        queues = {event["queue"] for event in events}
        if len(queues) > 1:
            broken.append(f"{key} is in queues {sorted(queues)}")
        firsts = [(event["number"], min(places[_body(event)])[1]) for event in events if places.get(_body(event))]
        swapped = [(one, other) for (one, a), (other, b) in pairwise(firsts) if a >= b]
        broken += [f"{key}: {one} behind {other}" for one, other in swapped]
        verdict.out_of_order += [f"{key}|{other}" for _, other in swapped]
    verdict.breaks("order broken", broken)


def _judge_duplicates(verdict: Verdict, sends: list[Event], places: dict[str, list[tuple[int, int]]]) -> None:
    outcome = {_body(event): event for event in sends if event["event"] != "send"}
    doubled = {body: found for body, found in places.items() if len(found) > 1}
    verdict.doubled = [body for body, found in doubled.items() for _ in found[1:]]
    verdict.duplicates = len(verdict.doubled)
    verdict.breaks("twice, though tried once", [body for body in doubled if outcome.get(body, {}).get("tries") == 1])
    verdict.breaks("twice, though sent by `once`", [body for body in doubled if body.startswith("once")])
    refused = [body for body, event in outcome.items() if event["event"] == "fail" and not event["may_be_stored"]]
    verdict.breaks("stored, though its send was refused", [body for body in refused if body in places])


def _judge_consumers(
    verdict: Verdict, got: list[Event], at: dict[tuple[int, int], str], acks: dict[str, Event]
) -> None:
    seen: set[tuple[int, int]] = set()
    furthest: dict[int, int] = {}
    late, gone = [], []
    for event in got:
        queue, offset = place = event["queue"], event["offset"]
        if at.get(place) != event["body"]:
            gone.append(f"{event['body']} at {queue}/{offset}, now {at.get(place)}")
        if place in seen:
            verdict.redelivered_at.append(event["at"])
            continue
        seen.add(place)
        if offset != furthest.get(queue, -1) + 1:
            late.append(f"{queue}/{offset} behind {furthest.get(queue)}")
        furthest[queue] = max(offset, furthest.get(queue, -1))
    verdict.breaks("seen by a consumer, and not there", gone)
    verdict.breaks("consumed out of order", late)
    missed = [body for body, event in acks.items() if (event["queue"], event["offset"]) not in seen]
    verdict.breaks("never consumed", missed)


# --- how long sends were not taken -----------------------------------------------------------------------------------


def gap_s(acked_at: list[float], began: float, ended: float) -> float:
    """Return the longest time between two acknowledged sends that begins in this span; times are sorted.

    What began earlier is of the fault before, but for the moment in which this one was made."""
    near = [later - earlier for earlier, later in pairwise(acked_at) if began - NEAR_S < earlier < ended]
    return max(near, default=ended - began)


def acked_within(sends: list[Event], began: float, ended: float) -> int:
    """Return how many sends were acknowledged in this span."""
    return sum(event["event"] == "ack" and began < event["at"] < ended for event in sends)


def note_gaps(sends: list[Event], faults: list[Event]) -> None:
    """Note the longest gap around each fault in its event."""
    acked_at = sorted(event["at"] for event in sends if event["event"] == "ack")
    for event in faults:
        event["gap"] = gap_s(acked_at, event["began"], event["ended"])


def note_cases(sends: list[Event], faults: list[Event], what: str, bodies: Iterable[str]) -> None:
    """Note in the event of each fault how many of these messages are of it: it had begun last when they were sent."""
    sent_at = {_body(event): event["at"] for event in sends if event["event"] != "send"}
    note_times(faults, what, [sent_at.get(body, 0.0) for body in bodies])


def note_times(faults: list[Event], what: str, times: Iterable[float]) -> None:
    """Note in the event of each fault how many of these moments were in or after it, and before the next one."""
    begun_at = [event["began"] for event in faults]
    for event in faults:
        event[what] = 0
    for at in times if faults else ():
        faults[max(0, bisect(begun_at, at) - 1)][what] += 1
