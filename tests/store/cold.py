"""A page cache in the test's hand: what is not in it may be read in the helper alone, never on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class Medium:
    """Nothing of the files that `is_cold` names is in the page cache until it was read in the helper.

    `kind` is the class of files that is watched. Itself the `run_blocking` of a store. Where the loop may read again
    what is warm, `may_read_again` says so.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        kind: Any,
        page: int,
        *,
        is_cold: Callable[[str], bool] = lambda name: True,
        may_read_again: bool = False,
    ) -> None:
        self.warm: set[tuple[str, int]] = set()
        self.fetched = 0
        self.in_helper = False
        real = kind.pread

        def pages(file: Any, offset: int, length: int) -> set[tuple[str, int]]:
            numbers = range(offset // page, -(-(offset + length) // page))
            return {(file.name, number) for number in numbers} if is_cold(file.name) else set()

        def pread(file: Any, offset: int, length: int) -> Any:
            wanted = pages(file, offset, length)
            is_fine = self.in_helper or (may_read_again and wanted <= self.warm)
            assert is_fine, f"the loop waits for {file.name} at {offset}"
            self.warm |= wanted
            return real(file, offset, length)

        def pread_resident(file: Any, offset: int, length: int) -> Any:
            return real(file, offset, length) if pages(file, offset, length) <= self.warm else None

        monkeypatch.setattr(kind, "pread", pread)
        monkeypatch.setattr(kind, "pread_resident", pread_resident)

    async def __call__(self, call: Callable[[], T]) -> T:
        self.fetched += 1
        self.in_helper = True
        try:
            return call()
        finally:
            self.in_helper = False
