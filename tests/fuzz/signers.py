"""Who sends the frames of a campaign against daemons that ask who everybody is.

Most frames are signed rightly, whatever is in them: by a super user, so that they come through to handlers and kernels,
or by one who may little. The rest is what strangers send: nothing, half of a signature, a wrong one, nonsense.
"""

from __future__ import annotations

import json
import random
from typing import Any

from pyromq.access.signatures import ACCESS_KEY, SIGNATURE, Signer
from pyromq.protocol.command import Command
from tests.fuzz import values
from tests.fuzz.values import World

ADMIN, INNER = "canary-admin-7f3a9c", "canary-inner-7f3a9c"
MIGHTY, WORKER = "fuzz-mighty-7f3a9c", "fuzz-worker-7f3a9c"  # in no list of `values.py`: nobody changes them
SECRET = "a secret of the campaign"
SETTINGS: dict[str, object] = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": ADMIN, "password": SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": INNER, "secretKey": SECRET}),
}
RIGHTS = ("Topic:*", "Group:fuzz*")  # of the worker, to send, read and list
_RIGHTLY = 0.75


class Signers:
    """Puts into a frame's fields who sends it."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self._rng, self._world = rng, world
        self._mighty, self._worker = Signer(MIGHTY, SECRET), Signer(WORKER, SECRET)

    def sign(self, code: int, fields: dict[str, str], typed: dict[str, Any], body: bytes, *, must_pass: bool) -> None:
        """`typed`: the fields that are no texts, which take the place of others. `must_pass`: by the super user."""
        rng = self._rng
        told = fields | {name: _as_read(value) for name, value in typed.items() if value is not None}
        command = Command(code=code, fields=told, body=body)
        if must_pass or rng.random() < _RIGHTLY:
            (self._mighty if must_pass or rng.random() < 0.8 else self._worker).sign(command)
            fields |= {name: command.fields[name] for name in (ACCESS_KEY, SIGNATURE)}
            return
        aim = rng.random()
        if aim < 0.3:
            return
        who = rng.choice((MIGHTY, MIGHTY, WORKER, ADMIN, INNER, "", values.hostile(rng, self._world)))
        Signer(who, rng.choice((SECRET, "guessed", ""))).sign(command)
        fields |= {name: command.fields[name] for name in (ACCESS_KEY, SIGNATURE)}
        if aim < 0.7:
            name = rng.choice((ACCESS_KEY, SIGNATURE))
            if rng.random() < 0.5:
                del fields[name]
            else:
                fields[name] = values.hostile(rng, self._world)


def _as_read(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
