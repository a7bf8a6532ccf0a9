"""Who may see the pages: a token that is good for one exchange, sessions in memory, and tokens of programs.

Only hashes are kept. A restart ends all sessions.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256

LONGEST_S = 12 * 3600.0
IDLE_S = 3600.0
TRIES, TRIES_S = 5, 60.0  # logins of one address
MOST_SESSIONS = 1_000


@dataclass(slots=True)
class _Session:
    begun: float
    seen: float
    form_token: str


@dataclass(slots=True, eq=False, repr=False)
class Sessions:
    """Event loop only. `word` makes a random word of 256 bits; `announce` tells people the next login token."""

    word: Callable[[], str]
    monotonic: Callable[[], float]
    announce: Callable[[str], None]
    program_tokens: Iterable[str] = ()
    _once: str = ""
    _sessions: dict[str, _Session] = field(default_factory=dict)
    _tries: dict[str, deque[float]] = field(default_factory=dict)
    _programs: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._programs = frozenset(_hash(token) for token in self.program_tokens)

    def offer(self) -> None:
        """Make a token that logs in once, and tell people."""
        token = self.word()
        self._once = _hash(token)
        self.announce(token)

    def may_try(self, address: str) -> bool:
        """Return whether this address may try to log in now: five times a minute."""
        now = self.monotonic()
        tries = self._tries.setdefault(address, deque())
        while tries and now - tries[0] >= TRIES_S:
            tries.popleft()
        if len(tries) >= TRIES:
            return False
        tries.append(now)
        if len(self._tries) > MOST_SESSIONS:
            self._tries = {address: tries}
        return True

    def login(self, token: str) -> str | None:
        """Return a new session's word for the token; None: it is wrong or was used. The next token is offered."""
        if not self._once or not hmac.compare_digest(_hash(token), self._once):
            return None
        self.offer()
        now, word = self.monotonic(), self.word()
        self._forget_old(now)
        self._sessions[_hash(word)] = _Session(now, now, self.word())
        return word

    def logout(self, word: str) -> None:
        self._sessions.pop(_hash(word), None)

    def form_token(self, word: str) -> str | None:
        """Return the token for forms of this session, and count it as seen; None: there is no such session."""
        now, session = self.monotonic(), self._sessions.get(_hash(word))
        if session is None or now - session.begun > LONGEST_S or now - session.seen > IDLE_S:
            self.logout(word)
            return None
        session.seen = now
        return session.form_token

    def is_program(self, token: str) -> bool:
        """Return whether this is a token of a program."""
        return _hash(token) in self._programs

    def _forget_old(self, now: float) -> None:
        for key, one in list(self._sessions.items()):
            if now - one.begun > LONGEST_S or now - one.seen > IDLE_S or len(self._sessions) >= MOST_SESSIONS:
                del self._sessions[key]


def _hash(token: str) -> str:
    return sha256(token.encode(errors="replace")).hexdigest()
