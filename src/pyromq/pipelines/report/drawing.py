"""Plots of a report as SVG: bars and lines, with their axes and what these mean in words. Pure: text out.

Colours are readable on light and on dark ground; text takes the page's own colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log10
from typing import Any

from ...model.foreign_text import in_html
from .summary import Plot

_COLOURS = ["#2a6fdb", "#d1495b", "#3a9d5d", "#b8860b", "#7b5ea7", "#2b8a9d", "#c2557a", "#6b6b6b"]
_WIDTH, _BAR, _LEFT, _TOP = 960, 22, 250, 24
_HEIGHT, _FOOT = 240, 52
_MOST_BARS, _STEPS = 40, 4


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def drawn(plot: Plot) -> str:
    if not any(plot.series.values()):
        return "<p>nothing to draw</p>"
    return _bars(plot) if plot.kind == "bars" else _lines(plot)


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


def _bars(plot: Plot) -> str:
    labels, most = _labels(plot), _most(plot) or 1
    rows = [_text(_LEFT - 8, 14, plot.across, "end", mark="axis"), _text(_LEFT, 14, plot.unit, "start", mark="axis")]
    shown, y = labels[:_MOST_BARS], float(_TOP)
    room = _WIDTH - _LEFT - 16 - 8 * len(number(most))  # the longest number stands behind the longest bar
    for label in shown:
        rows.append(_text(_LEFT - 8, y + 15, _short(label), "end", label))
        for series, points in enumerate(plot.series.values()):
            if label in points:
                width = max(1.0, room * points[label] / most)
                rows.append(
                    f'<rect x="{_LEFT}" y="{y + 3:.0f}" width="{width:.1f}" height="{_BAR - 6}" '
                    f'fill="{_colour(series)}"/>'
                )
                rows.append(_text(_LEFT + width + 6, y + 15, number(points[label]), "start"))
                y += _BAR
        y += 4
    left = len(labels) - len(shown)
    more = f"<p>and {left} more</p>" if left else ""
    return _svg(y + 4, rows, plot.title) + _legend(plot.series) + more


def _lines(plot: Plot) -> str:
    labels, top = _labels(plot), scale(_most(plot))
    left, width = 90, _WIDTH - 170
    places = _places(labels, left, width)
    rows = [_text(left - 6, 14, plot.unit, "end", mark="axis")]
    for step in range(_STEPS + 1):
        y = _TOP + _HEIGHT * (1 - step / _STEPS)
        rows.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#8884"/>')
        rows.append(_text(left - 6, y + 4, number(top * step / _STEPS), "end"))
    for series, points in enumerate(plot.series.values()):
        spots = [(places[label], _TOP + _HEIGHT * (1 - value / top)) for label, value in points.items()]
        rows.append(_line(spots, series))
    foot = _TOP + _HEIGHT
    for label in labels[:: -(-len(labels) // 6)]:
        rows.append(
            f'<line x1="{places[label]:.1f}" y1="{foot}" x2="{places[label]:.1f}" y2="{foot + 5}" stroke="#888"/>'
        )
        rows.append(_text(places[label], foot + 20, _short(label), "middle", label))
    rows.append(_text(left + width / 2, foot + 42, plot.across, "middle", mark="axis"))
    return _svg(foot + _FOOT, rows, f"{plot.title} ({plot.unit})") + _legend(plot.series)


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
        f'<span style="color:{_colour(place)}">&#9632;</span> {in_html(name)} ' for place, name in enumerate(series)
    )
    return f"<p>{''.join(marks)}</p>"


def _svg(height: float, rows: Iterable[str], title: str) -> str:
    size = f'width="{_WIDTH}" height="{height:.0f}" viewBox="0 0 {_WIDTH} {height:.0f}"'
    return f'<div class="wide"><svg {size} role="img"><title>{in_html(title)}</title>{"".join(rows)}</svg></div>'


def _text(x: float, y: float, text: str, anchor: str, whole: str = "", mark: str = "") -> str:
    hint = f"<title>{in_html(whole)}</title>" if whole and whole != text else ""
    kind = f' class="{mark}"' if mark else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{in_html(text)}{hint}</text>'


def _short(label: str) -> str:
    return label if len(label) <= 36 else f"{label[:17]}…{label[-18:]}"


def _colour(series: int) -> str:
    return _COLOURS[series % len(_COLOURS)]
