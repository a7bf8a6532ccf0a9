"""The locked versions are those of pyproject.toml: nothing missing, nothing outside its range, everything hashed."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.house.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    return {
        re.sub(r"[-_.]+", "-", found[0]).lower(): found[1] for found in re.findall(r"^([\w.-]+)==(\S+)", text, re.M)
    }


def wanted(*extras: str) -> list[Requirement]:
    return [Requirement(text) for text in PROJECT["dependencies"] + [one for extra in extras for one in EXTRAS[extra]]]


def outside(requirements: list[Requirement], versions: dict[str, str]) -> list[str]:
    """Requirements that are not locked, or to a version out of their range."""
    return [
        str(one)
        for one in requirements
        if one.name.lower() not in versions or not one.specifier.contains(versions[one.name.lower()])
    ]


@pytest.mark.parametrize(
    ("name", "extras"),
    [("core", ["fast", "compress"]), ("run", ["fast", "compress"]), ("spark", ["spark"]), ("dev", list(EXTRAS))],
)
def test_every_dependency_is_locked_within_its_range(name: str, extras: list[str]) -> None:
    assert outside(wanted(*extras), locked(name)) == [], "type `make lock`"


def test_the_check_can_fail() -> None:
    assert outside([Requirement("a>=2"), Requirement("b"), Requirement("c<3")], {"a": "1.9", "c": "2"}) == ["a>=2", "b"]


@pytest.mark.parametrize("name", ["core", "run", "spark", "dev", "docs"])
def test_every_locked_version_has_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    entries = re.split(r"\n(?=[\w.-]+==)", text)[1:]
    assert {entry.partition("==")[0].lower() for entry in entries} == set(
        locked(name)
    )  # a name may have two versions, by Python
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_layers_of_the_lock_agree() -> None:
    core, dev, docs = locked("core"), locked("dev"), locked("docs")
    assert locked("run").items() < core.items()  # without what builds
    assert {name for name in core.keys() & dev.keys() if core[name] != dev[name]} == set()
    assert {name for name in docs.keys() & (dev | core).keys() if docs[name] != (dev | core)[name]} == set()
