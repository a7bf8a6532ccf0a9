"""Runs `Answers.java` against the jars of RocketMQ 5.5.0. Fetches them at the first call, as the other peers do."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..peers import cache, java

VERSION = "5.5.0"
SOURCE = Path(__file__).with_name("Answers.java")

Pair = tuple[str, Mapping[str, str]]


def program() -> Path:
    """The folder of the compiled program."""
    content = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    library = java.jars(VERSION)

    def build(folder: Path) -> None:
        command = [cache.tool("javac", "openjdk-17-jdk-headless"), "-cp", f"{library}/*", "-d", str(folder)]
        done = subprocess.run([*command, str(SOURCE)], capture_output=True, text=True)
        if done.returncode != 0:
            raise cache.PeerMissing(f"javac failed: {done.stderr[-2000:]}")

    return cache.once(f"java-{VERSION}-sql92-{content}", build)


def ask_java(pairs: Sequence[Pair], *arguments: str) -> list[Any]:
    """Java's answer for each expression and properties: invalid, error, true, false or unknown."""
    path = f"{java.jars(VERSION)}/*:{program()}"
    question = json.dumps([[text, dict(properties)] for text, properties in pairs])
    command = [java.runtime(), "-Xmx512m", "-XX:+UseSerialGC", "-cp", path, "Answers", *arguments]
    done = subprocess.run(command, input=question.encode(), capture_output=True, check=True)
    answers: list[Any] = json.loads(done.stdout.splitlines()[-1])
    assert len(answers) == len(pairs)
    return answers


def ask_ours(text: str, properties: Mapping[str, str]) -> str:
    """Ours, in the same words."""
    from pyromq.model.filters.sql92 import EvaluationFault, FilterFault, Sql92

    try:
        expression = Sql92(text)
    except FilterFault:
        return "invalid"
    try:
        answer = expression.evaluate(properties)
    except EvaluationFault:
        return "error"
    return "unknown" if answer is None else str(answer).lower()
