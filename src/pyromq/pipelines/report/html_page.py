"""A summary as one HTML page with its plots drawn in it: no script, no style or font from elsewhere, so that it opens
without a network and can be mailed. Pure: text out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...model.foreign_text import in_html
from ...text.values import heading
from .drawing import drawn, number
from .summary import Summary, Table, in_words

_MOST_ROWS = 500
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1b1f24;
  background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; } small { color: #667; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; } dt { color: #667; } dd { margin: 0; }
div.table { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #dde; text-align: left; white-space: nowrap; }
tr:hover td { background: #8881; } td.n, th.n { text-align: right; }
div.table:focus-visible { outline: 2px solid #2a6fdb; }
svg { display: block; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; } svg .axis { fill: #667; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; } .narrow { display: none; }
@media (max-width: 63rem) {
  .plot.wide { display: none; } .narrow { display: block; } .narrow svg { width: 100%; max-width: 34rem; height: auto; }
}
@media (prefers-color-scheme: dark) {
  body { background: #14171b; color: #e4e6ea; } th, td { border-color: #333a44; }
  small, dt { color: #9aa3b2; } svg .axis { fill: #9aa3b2; }
}
"""
_HEAD = '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>'


def page(summary: Summary, made_at: str) -> str:
    title = in_html(f"PyroMQ {summary.pipeline}")
    words = (in_words(*pair) for pair in summary.facts.items())
    facts = "".join(f"<dt>{in_html(name)}</dt><dd>{_shown(value)}</dd>" for name, value in words)
    parts = [f"<main><h1>{title}</h1><small>{in_html(made_at)}</small><dl>{facts}</dl>"]
    parts += [f"<h2>{in_html(plot.title)}</h2>{drawn(plot)}" for plot in summary.plots]
    parts += [f"<h2>{in_html(heading(table.title))}</h2>{_table(table)}" for table in summary.tables]
    head = f"{_HEAD}<title>{title}</title><style>{_STYLE}</style>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</main></body></html>\n'


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return in_html("" if value is None else str(value))
    return number(value)


def _table(table: Table) -> str:
    if not table.rows:
        return "<p>nothing</p>"
    words = replace(table, rows=table.rows[:_MOST_ROWS]).in_words()
    names = list(words[0])
    head = "".join(f"<th{_right(words[0][name])}>{in_html(name)}</th>" for name in names)
    cells = ([f"<td{_right(row[name])}>{_shown(row[name])}</td>" for name in names] for row in words)
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    left = len(table.rows) - _MOST_ROWS
    more = f"<p>and {left:,} more rows, which --json has</p>" if left > 0 else ""
    # What scrolls can be reached by the keyboard, and says what it is.
    region = f'class="table" role="region" tabindex="0" aria-label="{in_html(heading(table.title))}"'
    return f"<div {region}><table><tr>{head}</tr>{rows}</table></div>{more}"


def _right(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return ' class="n"' if is_number else ""
