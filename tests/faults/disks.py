"""Disks of hosts: an ext4 in a file each, that can be full, and lose what was not synced when the power goes.

Brokers run in a mount namespace of their own, where the machine's boot id is that of their host: it is another one
after a power cut, which is how a replica knows that it may have lost records.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.crash.real import LoopMount
from tests.faults.hosts import run

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_FILLER = "filler"
_CHUNK = 1 << 20


class Shelf:
    """A folder for disks. What is unmounted here is unmounted in the namespaces of all brokers, which copy it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", str(folder), str(folder))
        run("mount", "--make-shared", str(folder))

    def close(self) -> None:
        run("umount", str(self.folder))


class HostDisk:
    """The disk of one host, and which boot of it this is."""

    def __init__(self, shelf: Shelf, name: str, size: int) -> None:
        home = shelf.folder / name
        home.mkdir()
        self._mounted = LoopMount(home, "ext4", size)
        self.folder = home / "ext4"
        self._boot = home / "boot_id"
        self._note_boot()

    def _note_boot(self) -> None:
        self._boot.write_text(f"{uuid.uuid4()}\n")

    def within(self, command: Sequence[str | Path]) -> list[str | Path]:
        """Return the command as one that sees this boot's id."""
        mount = f'mount --bind {self._boot} {BOOT_ID} && exec "$@"'
        return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", mount, "sh", *command]

    def cut_power(self) -> None:
        """Lose what was not synced, and boot. Whoever has files open here must have been killed."""
        self._mounted.cut_power()
        self._note_boot()

    def fill(self) -> None:
        """Take all room."""
        with suppress(OSError), (self.folder / _FILLER).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(self.folder).free - _CHUNK)
        try:
            with (self.folder / _FILLER).open("ab") as file:
                while True:
                    file.write(bytes(_CHUNK))
                    file.flush()
        except OSError as fault:
            if fault.errno != errno.ENOSPC:
                raise

    def free(self) -> None:
        """Give the room back."""
        (self.folder / _FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        self._mounted.close()
