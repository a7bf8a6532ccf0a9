"""Exit codes that no command uses for an answer (those are 0, 1 and 2), so that a script can tell them apart."""

from __future__ import annotations

NO_ANSWER = 2  # of those: nobody answered, or nobody could be reached
USAGE = 64  # a wrong option or argument
REFUSED = 78  # a wrong setting, a store that cannot be opened ...: one line says why, trying again does not help
