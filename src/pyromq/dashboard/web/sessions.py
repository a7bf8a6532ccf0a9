"""Who may see the pages: sessions in memory, of who has shown a token that is good for one exchange or is a user of the
cluster; and tokens of programs, those of a file and those that a session has made.

Only hashes are kept. A restart ends all sessions.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from ..watch.user_views import UserView

LONGEST_S = 12 * 3600.0
IDLE_S = 3600.0
TRIES, TRIES_S = 5, 60.0  # logins of one address
MOST_SESSIONS = 1_000
MOST_TOKENS = 10  # of one session


@dataclass(slots=True, eq=False, repr=False)
class WebSession:
    """`view`: what its user sees; None: it sees what the dashboard itself does. `tokens`: those that it has made."""

    begun: float
    seen: float
    form_token: str
    view: UserView | None = None
    tokens: set[str] = field(default_factory=set)
    is_over: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Sessions:
    """Event loop only. `word` makes a random word of 256 bits; `announce` tells people the next login token; `ended`
    hears of each user's session that is over."""

    word: Callable[[], str]
    monotonic: Callable[[], float]
    announce: Callable[[str], None]
    program_tokens: Iterable[str] = ()
    ended: Callable[[UserView], None] = lambda view: None
    _once: str = ""
    _sessions: dict[str, WebSession] = field(default_factory=dict)
    _by_token: dict[str, WebSession] = field(default_factory=dict)
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
        return self.begin()

    def begin(self, view: UserView | None = None) -> str:
        """Return the word of a new session, of a user or of whoever started the dashboard."""
        self.forget_old(MOST_SESSIONS - 1)
        now, word = self.monotonic(), self.word()
        self._sessions[_hash(word)] = WebSession(now, now, self.word(), view)
        return word

    def logout(self, word: str) -> None:
        self._end(_hash(word))

    def find(self, word: str) -> WebSession | None:
        """Return a session, and count it as seen; None: there is none of this word."""
        return self._seen(self._sessions.get(_hash(word)))

    # --- tokens of programs -------------------------------------------------------------------------------------------

    def is_program(self, token: str) -> bool:
        """Return whether this is a token of the file."""
        return _hash(token) in self._programs

    def make_token(self, session: WebSession) -> str | None:
        """Return a token by which programs do as a session, until its end. None: it has enough of them."""
        if len(session.tokens) >= MOST_TOKENS:
            return None
        token = self.word()
        session.tokens.add(_hash(token))
        self._by_token[_hash(token)] = session
        return token

    def of_token(self, token: str) -> WebSession | None:
        """Return the session that has made a token, and count it as seen."""
        return self._seen(self._by_token.get(_hash(token)))

    # --- ends ---------------------------------------------------------------------------------------------------------

    def forget_old(self, most: int = MOST_SESSIONS) -> None:
        """End the sessions whose time is over, and the oldest ones as long as there are more."""
        for key, one in list(self._sessions.items()):
            if self._is_over(one) or len(self._sessions) > most:
                self._end(key)

    def end_all_of(self, view: UserView) -> None:
        """End the sessions of a user whom the cluster no longer knows."""
        for key, one in list(self._sessions.items()):
            if one.view is view:
                self._end(key)

    def _seen(self, session: WebSession | None) -> WebSession | None:
        if session is None or self._is_over(session):
            self.forget_old()
            return None
        session.seen = self.monotonic()
        return session

    def _is_over(self, session: WebSession) -> bool:
        now = self.monotonic()
        return now - session.begun > LONGEST_S or now - session.seen > IDLE_S

    def _end(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        session.is_over = True
        for token in session.tokens:
            del self._by_token[token]
        if session.view is not None:
            self.ended(session.view)


def _hash(token: str) -> str:
    return sha256(token.encode(errors="replace")).hexdigest()
