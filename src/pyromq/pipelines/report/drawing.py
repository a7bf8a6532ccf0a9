"""Plots of a report as SVG: bars and lines, with their axes and what these mean in words. Pure: text out.

Each is drawn twice, for a window and for a telephone, whose page shows one of them. Colours are readable on light and
on dark ground; text takes the page's own colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log10
from typing import Any, NamedTuple

from ...model.foreign_text import in_html
from .summary import Plot

_COLOURS = ["#2a6fdb", "#d1495b", "#3a9d5d", "#b8860b", "#7b5ea7", "#2b8a9d", "#c2557a", "#6b6b6b"]
_BAR, _TOP, _FOOT, _LETTER = 22, 24, 52, 7  # a letter takes so much at most, on average
_MOST_BARS, _STEPS = 40, 4


class _Frame(NamedTuple):
    """A drawing's size; the height is that of lines. `is_wide`: the names of bars stand before them, not above."""

    width: int
    height: int
    is_wide: bool


_WIDE, _NARROW = _Frame(960, 240, True), _Frame(358, 200, False)


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def drawn(plot: Plot) -> str:
    if not any(plot.series.values()):
        return "<p>nothing to draw</p>"
    draw = _bars if plot.kind == "bars" else _lines
    left = len(_labels(plot)) - _MOST_BARS if plot.kind == "bars" else 0
    more = f"<p>and {left} more</p>" if left > 0 else ""
    wide, narrow = draw(plot, _WIDE), draw(plot, _NARROW)
    return f'<div class="plot wide">{wide}</div><div class="plot narrow">{narrow}</div>{_legend(plot.series)}{more}'


def scale(most: float) -> float:
    """Return the end of an axis: the next number that divides into round steps."""
    if most <= 0:
        return float(_STEPS)
    step = most / _STEPS
    power = 10.0 ** floor(log10(step))
    return next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= step * 0.999999) * _STEPS


def _labels(plot: Plot) -> list[str]:
    return list(dict.fromkeys(label for points in plot.series.values() for label in points))


def _most(plot: Plot) -> float:
    return max((value for points in plot.series.values() for value in points.values()), default=0)


def _bars(plot: Plot, frame: _Frame) -> str:
    labels, most = _labels(plot)[:_MOST_BARS], _most(plot) or 1
    left = 8 + _LETTER * max(len(_short(each)) for each in (*labels, plot.across)) if frame.is_wide else 0
    rows, y = [_text(left, 14, plot.unit, "start", mark="axis")], float(_TOP)
    if frame.is_wide:
        rows.append(_text(left - 8, 14, plot.across, "end", mark="axis"))
    else:
        rows.append(_text(frame.width, 14, plot.across, "end", mark="axis"))
    room = frame.width - left - 16 - 8 * len(number(most))  # the longest number stands behind the longest bar
    for label in labels:
        if frame.is_wide:
            rows.append(_text(left - 8, y + 15, _short(label), "end", label))
        else:
            rows.append(_text(0, y + 13, _short(label), "start", label))
            y += 18
        for series, points in enumerate(plot.series.values()):
            if label in points:
                width = max(1.0, room * points[label] / most)
                rows.append(
                    f'<rect x="{left}" y="{y + 3:.0f}" width="{width:.1f}" height="{_BAR - 6}" rx="2" '
                    f'fill="{_colour(series)}"/>'
                )
                rows.append(_text(left + width + 6, y + 15, number(points[label]), "start"))
                y += _BAR
        y += 6
    return _svg(frame, y + 4, rows, plot.title)


def _lines(plot: Plot, frame: _Frame) -> str:
    labels, top = _labels(plot), scale(_most(plot))
    steps = [(top * step / _STEPS, _TOP + frame.height * (1 - step / _STEPS)) for step in range(_STEPS + 1)]
    left = 10 + 8 * max(len(number(value)) for value, _ in steps)
    width = frame.width - left - 16
    places = _places(labels, left, width)
    rows = [_text(0, 12, plot.unit, "start", mark="axis")]
    for value, y in steps:
        rows.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#8884"/>')
        rows.append(_text(left - 6, y + 4, number(value), "end"))
    for series, points in enumerate(plot.series.values()):
        spots = [(places[label], _TOP + frame.height * (1 - value / top)) for label, value in points.items()]
        rows.append(_line(spots, series))
    foot = _TOP + frame.height
    for label in _ticks(labels, width):
        x = places[label]
        rows.append(f'<line x1="{x:.1f}" y1="{foot}" x2="{x:.1f}" y2="{foot + 5}" stroke="#888"/>')
        rows.append(_tick(x, foot + 20, label, frame.width))
    rows.append(_text(left + width / 2, foot + 42, plot.across, "middle", mark="axis"))
    return _svg(frame, foot + _FOOT, rows, f"{plot.title} ({plot.unit})")


def _ticks(labels: Sequence[str], width: int) -> Sequence[str]:
    """Return the labels that have room below an axis: some of them, at least the first."""
    needed = _LETTER * max(len(_short(each)) for each in labels) + 12
    most = int(width // (1.5 * needed))  # the first one stands beside its place, not around it
    if most >= 2 or len(labels) == 1:
        return labels[:: -(-len(labels) // max(most, 1))]
    return [labels[0], labels[-1]] if width >= 2 * needed else labels[:1]


def _tick(x: float, y: float, label: str, width: int) -> str:
    """Return the words at a place of the axis: around it where there is room, else beside it."""
    half = _LETTER * len(_short(label)) / 2
    anchor = "start" if x < half else "end" if x + half > width else "middle"
    return _text(x, y, _short(label), anchor, label)


def _places(labels: Sequence[str], left: int, width: int) -> dict[str, float]:
    if len(labels) == 1:
        return {labels[0]: left + width / 2}
    return {label: left + width * place / (len(labels) - 1) for place, label in enumerate(labels)}


def _line(spots: Sequence[tuple[float, float]], series: int) -> str:
    if len(spots) == 1:
        return f'<circle cx="{spots[0][0]:.1f}" cy="{spots[0][1]:.1f}" r="4" fill="{_colour(series)}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dash = ' stroke-dasharray="6 3"' if series >= len(_COLOURS) else ""  # colours come again
    return f'<polyline points="{path}" fill="none" stroke="{_colour(series)}" stroke-width="2"{dash}/>'


def _legend(series: Mapping[str, Any]) -> str:
    if len(series) < 2:
        return ""
    marks = (
        f'<span><span style="color:{_colour(place)}">&#9632;</span> {in_html(name)}</span>'
        for place, name in enumerate(series)
    )
    return f'<p class="legend">{" ".join(marks)}</p>'


def _svg(frame: _Frame, height: float, rows: Iterable[str], title: str) -> str:
    size = f'width="{frame.width}" height="{height:.0f}" viewBox="0 0 {frame.width} {height:.0f}"'
    return f'<svg {size} role="img"><title>{in_html(title)}</title>{"".join(rows)}</svg>'


def _text(x: float, y: float, text: str, anchor: str, whole: str = "", mark: str = "") -> str:
    hint = f"<title>{in_html(whole)}</title>" if whole and whole != text else ""
    kind = f' class="{mark}"' if mark else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{in_html(text)}{hint}</text>'


def _short(label: str) -> str:
    return label if len(label) <= 36 else f"{label[:17]}…{label[-18:]}"


def _colour(series: int) -> str:
    return _COLOURS[series % len(_COLOURS)]
