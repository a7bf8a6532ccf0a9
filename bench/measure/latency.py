"""What one send at a time took, in the figures that bench/client.py prints. For every client written in Python."""

from __future__ import annotations


def latency(took_s: list[float], cpu_s: float) -> dict[str, float]:
    """Of all sends: how long each took, and the CPU of the client's process over them."""
    ordered = sorted(took_s)
    return {
        "p50_us": ordered[len(ordered) // 2] * 1e6,
        "p99_us": ordered[int(len(ordered) * 0.99)] * 1e6,
        "one_cpu_us": cpu_s / len(ordered) * 1e6,
    }
