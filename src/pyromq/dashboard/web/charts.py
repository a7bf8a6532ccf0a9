"""Charts as numbers for SVG: the server draws, the browser adds a crosshair. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Point = tuple[int, float | None]
WIDTH, HEIGHT = 600, 120


class Chart(NamedTuple):
    """`lines`: pieces of the line, gaps between them where nothing is known. `area`: the same down to the floor."""

    lines: list[str]
    areas: list[str]
    top: float
    begin_ms: int
    end_ms: int
    newest: float | None
    width: int = WIDTH
    height: int = HEIGHT


def chart(points: Sequence[Point], begin_ms: int, end_ms: int) -> Chart:
    """Return the chart of a series. Nothing is drawn where nothing is known, least of all a zero."""
    known = [value for _, value in points if value is not None]
    top = nice_top(max(known, default=0.0))
    span = max(1, end_ms - begin_ms)
    lines, areas = [], []
    for piece in _pieces(points):
        places = [
            (round((at - begin_ms) / span * WIDTH, 1), round(HEIGHT - value / top * (HEIGHT - 4), 1))
            for at, value in piece
        ]
        if len(places) == 1:
            places.append((places[0][0] + 1.5, places[0][1]))
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in places)
        lines.append(path)
        areas.append(f"{path} L{places[-1][0]:g} {HEIGHT} L{places[0][0]:g} {HEIGHT} Z")
    newest = next((value for _, value in reversed(points) if value is not None), None)
    return Chart(lines, areas, top, begin_ms, end_ms, newest)


def nice_top(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, 50 ... that is not below the value."""
    step = 1.0
    while True:
        for factor in (1, 2, 5):
            if step * factor >= value:
                return step * factor
        step *= 10


def _pieces(points: Sequence[Point]) -> list[list[tuple[int, float]]]:
    pieces: list[list[tuple[int, float]]] = [[]]
    for at, value in points:
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((at, value))
    return [piece for piece in pieces if piece]
