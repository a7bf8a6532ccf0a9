"""The way in of remoting requests where it is asked who sends them: who is not known yet is learnt first."""

from __future__ import annotations

from ..access.gate import AccessGate
from ..errors import RequestRefused
from ..transport.dispatch import Answer, Dispatcher, Reply, Request, await_answer, failed


class SignerLookup:
    """A handler of all requests. Event loop only."""

    def __init__(self, dispatch: Dispatcher, gate: AccessGate) -> None:
        self._dispatch, self._gate = dispatch, gate

    def __call__(self, request: Request) -> Answer:
        user = self._gate.signer_to_learn(request.command, request.peer)
        return self._later(request, user) if user else self._dispatch(request)

    async def _later(self, request: Request, user: str) -> Reply | None:
        try:
            await self._gate.learn(user, request.peer.address)
        except RequestRefused as fault:
            return failed(request, fault)
        return await await_answer(self._dispatch(request))
