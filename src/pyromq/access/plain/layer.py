"""Accounts of ACL 1.0 as a layer of the directory: read at the start, and again at once when a file changes.

    layer = PlainLayer(home, "conf/plain_acl.yml", gate, run_blocking, clock)
    layer.begin()          # ConfigError: a file is broken
    await layer.watch()    # a broken file keeps its last good state, and is said in the log

Nothing of it is stored. The one engine of decisions serves it: an account is a user with policies (`users.py`), white
lists are the gate's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ... import logs
from ...ambient import Clock, RunBlocking
from ...errors import ConfigError
from ..directory import AccessContent, Arrival, UserState
from ..gate import AccessGate
from .accounts import BrokenFile, PlainAccount
from .addresses import WhiteLists
from .files import ReadFiles, contents
from .users import judged_policies, judged_user

log = logs.get("pyromq.access")

EVERY_S = 0.5  # as RocketMQ


class PlainLayer:
    """Event loop only."""

    def __init__(
        self,
        home: Path,
        main: str,
        gate: AccessGate,
        run_blocking: RunBlocking,
        clock: Clock,
        why_no_white_lists: str = "",
    ) -> None:
        """`why_no_white_lists`: why a file that lets addresses in is broken; empty: it is not."""
        self._read_contents = partial(contents, home, main)
        self._main = home / main
        self._gate, self._run_blocking, self._clock = gate, run_blocking, clock
        self._files = ReadFiles(why_no_white_lists)
        self._said: set[str] = set()
        self._held: dict[str, tuple[str, UserState]] | None = (
            None  # by account, and "" for all: a file and what it says
        )

    def begin(self) -> None:
        """Read the files for the first time. Blocks. ConfigError: one of them is broken."""
        self._read()
        for fault in self._files.faults.values():
            raise ConfigError(f"aclEnable = true: {fault}")
        self._apply()

    async def watch(self) -> None:
        """Look at the files again and again, until cancelled."""
        while True:
            await self._clock.sleep(EVERY_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Take what has changed in the files since the last time."""
        try:
            has_changed = await self._run_blocking(self._read)
        except BrokenFile as fault:
            self._say({str(fault)})
            return
        if has_changed:
            self._apply()
        self._say(set(self._files.faults.values()))

    def _read(self) -> bool:
        """Read what has changed; the loop has no turn meanwhile that would look at it. Blocks."""
        return self._files.take(self._read_contents())

    def _say(self, faults: set[str]) -> None:
        for fault in sorted(faults - self._said):
            log.warning("a file of ACL 1.0 is broken: what it said before goes on to hold", fault=fault)
        self._said = faults

    def _apply(self) -> None:
        accounts: dict[str, PlainAccount] = {}
        files: dict[str, str] = {}
        for path, account in self._files.accounts():
            if account.name in accounts:
                log.warning("an account stands in the files twice: the first one counts", user=account.name, file=path)
            accounts.setdefault(account.name, account)
            files.setdefault(account.name, str(path))
        own = sorted(self._gate.directory.users.keys() & accounts.keys())
        if own:
            log.warning("users have the names of accounts of ACL 1.0: the users count", users=", ".join(own))
        white = self._files.white
        users = {name: judged_user(account) for name, account in accounts.items()}
        policies = {name: judged_policies(account) for name, account in accounts.items()}
        self._gate.directory.derive(AccessContent(users, policies))
        believed = {name: account.white for name, account in accounts.items() if account.white.patterns}
        self._gate.let_in(WhiteLists(white, white, believed))
        held = {
            name: (files[name], UserState(users[name], policies[name], accounts[name].white.texts)) for name in accounts
        }
        self._say_changes({"": (str(self._main), UserState(believed=white.texts))} | held)
        log.info("accounts of ACL 1.0 are as their files say", accounts=len(accounts), white=len(white.patterns))
        if not accounts and not white.patterns:
            log.warning("no file of ACL 1.0 has any account: nobody is let in but users", file=self._main)

    def _say_changes(self, held: dict[str, tuple[str, UserState]]) -> None:
        """Say what differs from before; nothing at the start, since nobody knows what held before that."""
        before, self._held = self._held, held
        if before is None:
            return
        for name in sorted(before.keys() | held.keys()):
            file, old = before.get(name, ("", UserState()))
            now_file, now = held.get(name, (file, UserState()))
            self._gate.directory.arrived(Arrival(name, "", now_file, old, now))
