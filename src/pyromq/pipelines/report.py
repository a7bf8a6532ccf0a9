"""A summary as one HTML page with its plots drawn in it: no script, no style or font from elsewhere, so that it opens
without a network and can be mailed. Pure: text out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from .summary import Plot, Summary, Table

_COLOURS = ["#2a6fdb", "#d1495b", "#3a9d5d", "#b8860b", "#7b5ea7", "#2b8a9d", "#c2557a", "#6b6b6b"]
_WIDTH, _BAR, _LEFT = 860, 22, 230
_PLOT_HEIGHT, _FOOT = 240, 40
_MOST_BARS, _MOST_ROWS = 40, 500
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } small { color: #667; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dt { color: #667; } dd { margin: 0; }
div.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #dde; text-align: left; white-space: nowrap; }
td.n { text-align: right; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
@media (prefers-color-scheme: dark) { body { background: #14171b; color: #e4e6ea; } th, td { border-color: #333a44; } }
"""


def page(summary: Summary, made_at: str) -> str:
    """`made_at` is shown as it is."""
    title = escape(f"PyroMQ {summary.pipeline}")
    facts = "".join(f"<dt>{escape(str(name))}</dt><dd>{_shown(value)}</dd>" for name, value in summary.facts.items())
    parts = [f"<h1>{title}</h1><small>{escape(made_at)}</small><dl>{facts}</dl>"]
    parts += [f"<h2>{escape(plot.title)}</h2>{_drawn(plot)}" for plot in summary.plots]
    parts += [f"<h2>{escape(table.title)}</h2>{_table(table)}" for table in summary.tables]
    head = f'<meta charset="utf-8"/><title>{title}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return escape("" if value is None else str(value))
    return _number(value)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def _table(table: Table) -> str:
    if not table.rows:
        return "<p>nothing</p>"
    names = list(table.rows[0])
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(f"<tr>{''.join(_cell(row[name]) for name in names)}</tr>" for row in table.rows[:_MOST_ROWS])
    left = len(table.rows) - _MOST_ROWS
    more = f"<p>and {left:,} more rows, which --json has</p>" if left > 0 else ""
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>{more}'


def _cell(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    mark = ' class="n"' if is_number else ""
    return f"<td{mark}>{_shown(value)}</td>"


def _drawn(plot: Plot) -> str:
    if not any(plot.series.values()):
        return "<p>nothing to draw</p>"
    return _bars(plot) if plot.kind == "bars" else _lines(plot)


def _labels(plot: Plot) -> list[str]:
    return list(dict.fromkeys(label for points in plot.series.values() for label in points))


def _most(plot: Plot) -> float:
    return max((value for points in plot.series.values() for value in points.values()), default=0) or 1


def _bars(plot: Plot) -> str:
    labels, most = _labels(plot), _most(plot)
    shown, rows, y = labels[:_MOST_BARS], [], 4.0
    room = _WIDTH - _LEFT - 90
    for label in shown:
        rows.append(_text(_LEFT - 8, y + 15, _short(label), "end", label))
        for number, points in enumerate(plot.series.values()):
            if label in points:
                value = points[label]
                width = max(1.0, room * value / most)
                rows.append(
                    f'<rect x="{_LEFT}" y="{y + 3:.0f}" width="{width:.1f}" height="{_BAR - 6}" '
                    f'fill="{_colour(number)}"/>'
                )
                rows.append(_text(_LEFT + width + 6, y + 15, f"{_number(value)} {plot.unit}", "start"))
            y += _BAR
        y += 4
    left = len(labels) - len(shown)
    more = f"<p>and {left} more</p>" if left else ""
    return _svg(y + 4, rows, plot.title) + _legend(plot.series) + more


def _lines(plot: Plot) -> str:
    labels, most = _labels(plot), _most(plot)
    left, top, width = 70, 12, _WIDTH - 90
    places = {label: left + width * number / max(1, len(labels) - 1) for number, label in enumerate(labels)}
    rows = []
    for step in range(5):
        y = top + _PLOT_HEIGHT * (1 - step / 4)
        rows.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#8884"/>')
        rows.append(_text(left - 6, y + 4, _number(most * step / 4), "end"))
    for number, points in enumerate(plot.series.values()):
        spots = [(places[label], top + _PLOT_HEIGHT * (1 - value / most)) for label, value in points.items()]
        rows.append(_line(spots, _colour(number)))
    rows += [
        _text(places[label], top + _PLOT_HEIGHT + 20, _short(label), "middle", label)
        for label in labels[:: max(1, len(labels) // 5)]
    ]
    return _svg(top + _PLOT_HEIGHT + _FOOT, rows, f"{plot.title} ({plot.unit})") + _legend(plot.series)


def _line(spots: Sequence[tuple[float, float]], colour: str) -> str:
    if len(spots) == 1:
        return f'<circle cx="{spots[0][0]:.1f}" cy="{spots[0][1]:.1f}" r="4" fill="{colour}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _legend(series: Mapping[str, Any]) -> str:
    if len(series) < 2:
        return ""
    marks = (
        f'<span style="color:{_colour(number)}">&#9632;</span> {escape(name)} ' for number, name in enumerate(series)
    )
    return f"<p>{''.join(marks)}</p>"


def _svg(height: float, rows: Iterable[str], title: str) -> str:
    size = f'width="{_WIDTH}" height="{height:.0f}" viewBox="0 0 {_WIDTH} {height:.0f}"'
    return f'<div class="wide"><svg {size} role="img"><title>{escape(title)}</title>{"".join(rows)}</svg></div>'


def _text(x: float, y: float, text: str, anchor: str, whole: str = "") -> str:
    hint = f"<title>{escape(whole)}</title>" if whole and whole != text else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}{hint}</text>'


def _short(label: str) -> str:
    return label if len(label) <= 32 else f"{label[:15]}…{label[-16:]}"


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]
