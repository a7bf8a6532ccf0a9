"""The table of bench/spark.py in Markdown, written again after every row: what was measured stays if the rest fails."""

from __future__ import annotations

from pathlib import Path

from bench.measure.timing import Figure

Found = dict[int, dict[str, Figure | str]]  # by size and name; a text says why there is no figure
_HEADS = (
    *("body", "what", "rows/s", "CPU s/M", "JVM, workers, broker", "worker MB"),
    *("Kafka's rows/s", "Kafka's CPU s/M", "ratio", "CPU ratio"),
)
_ALIKE = {
    "offline": "pull",
    "offline-binary": "pull",
    "pull-binary": "pull",
    "stream-binary": "stream",
    "offline-pruned": "pull-pruned",
    "java": "pull",
    "rows": "pull",
}  # Kafka's connector has one way to read


def markdown(ours: Found, kafka: Found, title: str) -> str:
    lines = [title, "", _line(_HEADS), _line(["---"] * len(_HEADS))]
    for size in sorted({*ours, *kafka}):
        for name, figure in ours.get(size, {}).items():
            lines.append(_line([f"{size} B", name, *_cells(figure), *_beside(figure, kafka.get(size, {}), name)]))
        lines += [
            _line([f"{size} B", f"Kafka's {name}", *_cells(figure)])
            for name, figure in kafka.get(size, {}).items()
            if isinstance(figure, str) or name not in ours.get(size, {})
        ]
    return "\n".join(lines) + "\n"


def save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join([*cells, *[""] * (len(_HEADS) - len(cells))]) + " |"


def _cells(figure: Figure | str) -> list[str]:
    if isinstance(figure, str):
        return [figure, "", "", ""]
    parts = ", ".join(f"{figure.get(kind, 0):.1f}" for kind in ("jvm", "workers", "broker"))
    return [f"{figure['rate']:,.0f}", f"{figure['cpu']:.1f}", parts, f"{figure['worker_mb']:.0f}"]


def _beside(figure: Figure | str, kafka: dict[str, Figure | str], name: str) -> list[str]:
    other = kafka.get(_ALIKE.get(name, name))
    if not isinstance(other, dict):
        return []
    cells = [f"{other['rate']:,.0f}", f"{other['cpu']:.1f}"]
    if isinstance(figure, dict):
        cells += [f"{figure['rate'] / other['rate']:.2f}x", f"{other['cpu'] / figure['cpu']:.2f}x"]
    return cells
