"""The settings of the audit log, which broker, name server and proxy take over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..config import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Which files the audit log has, and how often it repeats itself."""

    audit_enable: bool = setting(True, help="write down administrative calls, logins and refusals")
    audit_folder: Path | None = setting(
        None, help="folder of these files; not given: audit, beside what the daemon keeps for itself"
    )
    audit_file_bytes: int = setting(
        64 << 20, low=4 << 10, high=256 << 20, help="bytes after which a new file of the audit log begins"
    )
    audit_files: int = setting(16, low=2, high=100_000, help="files of the audit log that are kept, then the oldest go")
    audit_repeat_seconds: int = setting(
        60, low=1, help="s in which a refusal, or a call that only reads, is written once, with the number of the rest"
    )
