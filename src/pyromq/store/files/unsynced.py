"""What changed in derived files since the last flush: file contents to sync, and folders that gained or lost names."""

from __future__ import annotations

from contextlib import suppress

from .disk import Disk, FileMissing


class UnsyncedFiles:
    """Writer's thread only, except that what `take` returned belongs to the flush that asked."""

    __slots__ = ("files", "folders", "names")

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self.names: dict[str, bool] = {}  # files that were made (True) or went (False)

    def folders_above(self, folder: str) -> None:
        """Note every folder up to the root: one was made, maybe with parents, so each may have gained a name."""
        while folder:
            folder = folder.rpartition("/")[0]
            self.folders.add(folder)

    def take(self) -> UnsyncedFiles:
        """Return what has gathered so far, and begin again with nothing."""
        gathered = UnsyncedFiles()
        gathered.files.update(self.files)
        self.files.clear()  # the tails of queues hold this very set
        gathered.folders, self.folders = self.folders, set()
        gathered.names, self.names = self.names, {}
        return gathered

    def sync(self, disk: Disk) -> None:
        """Sync the files, then the folders. Blocking. A folder that was removed meanwhile has nothing to keep."""
        disk.sync_many(sorted(self.files))
        for folder in sorted(self.folders, reverse=True):
            with suppress(FileMissing):
                disk.sync_folder(folder)
