"""Who sent a request, and whether he may: the one place that decides it, before any handler is called.

    gate = AccessGate(directory, settings, cluster="DefaultCluster", clock=clock)
    Dispatcher(handlers, gate)

A gate sets `principal` and `rights` of the request, or raises RequestRefused(NO_PERMISSION) in the words of 5.5.0. It
goes by the header's fields; a body is decoded only for who has shown who he is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from .. import logs
from ..ambient import Clock
from ..errors import RequestRefused
from ..model import names
from ..protocol.command import Command
from ..protocol.requests import ROWS, RequestCode
from .directory import Directory, refused
from .needs import Want, wants
from .plain.addresses import WhiteLists
from .rights import EVERYTHING, Principal, Proof, Rights
from .settings import GateSettings
from .sharing.behalf import named_caller
from .signatures import ACCESS_KEY, SIGNATURE, call_signature, claimed_name, is_call_signed, is_signed
from .user_rights import LetInRights, SuperRights, UserRights
from .users import User

log = logs.get("pyromq.access")


class GatedPeer(Protocol):
    """The other end of a connection, as far as it tells who is there."""

    @property
    def address(self) -> str: ...

    @property
    def identity(self) -> str | None:
        """Return the user that the connection's certificate names, if it was asked for one and checked."""
        ...


class GatedRequest(Protocol):
    """A request; `transport.dispatch.RequestOf` is one."""

    command: Command
    principal: Principal
    rights: Rights

    @property
    def peer(self) -> GatedPeer: ...

    @property
    def body(self) -> Any: ...


class Learner(Protocol):
    """Knows users only once they have come, and asks others for them."""

    def is_known(self, name: str) -> bool:
        """Tell whether what is known of a user, if only that he is none, is good enough to judge him by."""
        ...

    async def learn(self, name: str, address: str) -> None:
        """Return once it is. RequestRefused: nobody could be asked, or too many are asked for already, of all or of the
        connection from this address."""
        ...


Refused = Callable[[Principal, int | str, str, str], None]  # who, the code or the call, from which address, and why
Passed = Callable[[Principal, str], None]  # who, and from which address


class AccessGate:
    """Event loop only. `on_refusal` hears of each refusal, `on_passage` of each request that has passed."""

    def __init__(
        self,
        directory: Directory,
        settings: GateSettings,
        *,
        cluster: str,
        clock: Clock,
        learner: Learner | None = None,
    ) -> None:
        """`learner`: has to know who asks before he is judged; None: all users are known here."""
        self.directory = directory
        self._learner = learner
        self._settings = settings
        inner = settings.inner_credentials()
        self._inner = "" if inner is None else inner.name
        self._cluster = cluster
        self._unproven = settings.authentication_whitelist_items
        self._unjudged = settings.authorization_whitelist_items
        self._white = self._white_of_settings = settings.white_lists
        self._warn = logs.Limited(log, clock)
        self._clock = clock
        self.on_refusal: list[Refused] = []
        self.on_passage: list[Passed] = []

    def let_in(self, more: WhiteLists) -> None:
        """Replace the addresses that are let in besides those of the settings."""
        white = self._white_of_settings + more
        if white != self._white:
            self._white = white
            self.directory.revoke_all()

    def __call__(self, request: GatedRequest) -> None:
        """Set who sent a request and what he may do. RequestRefused if he may not have it."""
        command = request.command
        request.principal = Principal(source=source_of(request.peer.address))  # until he has shown who he is
        try:
            request.principal = principal = self.principal_of(command, request.peer)
            request.rights = self.rights_of(self._meant(principal, command))
            self._judge(command, principal, lambda: request.body)
        except RequestRefused as fault:
            self._report(request.principal, command.code, request.peer.address, str(fault))
            raise
        self.note_passage(principal, request.peer.address)

    def note_passage(self, principal: Principal, address: str) -> None:
        for each in self.on_passage:
            each(principal, address)

    def _meant(self, principal: Principal, command: Command) -> Principal:
        """Return for whom a gateway asks, which is a server itself; anybody else asks for himself."""
        named = named_caller(command) if self._inner and principal.name == self._inner else None
        return principal if named is None else named

    # --- who ----------------------------------------------------------------------------------------------------------

    def signer_to_learn(self, command: Command, peer: GatedPeer) -> str:
        """Return the user to `learn` before a request is judged; "": nobody."""
        return self._to_learn(command.fields.get(ACCESS_KEY) or peer.identity or "")

    def caller_to_learn(self, authorization: str) -> str:
        """Return the user to `learn` before a gRPC call with this header is judged; "": nobody."""
        return self._to_learn(claimed_name(authorization))

    def _to_learn(self, name: str) -> str:
        return "" if self._learner is None or not name or self._learner.is_known(name) else name

    async def learn(self, name: str, address: str) -> None:
        """Return once enough is known of a user to judge him, who comes from an address with a port. RequestRefused:
        nobody could be asked, or too many are asked for."""
        if self._learner is not None:
            await self._learner.learn(name, address)

    def principal_of(self, command: Command, peer: GatedPeer) -> Principal:
        """Return who signed a request, or whose certificate its connection shows."""
        source = source_of(peer.address)
        if not self._settings.authentication_enabled:
            return Principal(source=source)
        try:
            return self._proven(command, peer, source)
        except RequestRefused:
            found = self._let_in(command.fields.get(ACCESS_KEY, ""), source, str(command.code))
            if found is None:
                raise
            return found

    def _let_in(self, name: str, source: str, what: str) -> Principal | None:
        """Return who sent what nobody has signed, if white lists let it in."""
        white = self._white
        if white.is_believed(name, source) and self.directory.is_derived(name):
            return Principal(name, source=source, proof=Proof.ADDRESS)
        if white.unsigned.covers(source):
            return Principal(source=source, proof=Proof.ADDRESS)
        return Principal(source=source) if what in self._unproven else None

    def _proven(self, command: Command, peer: GatedPeer, source: str) -> Principal:
        name = command.fields.get(ACCESS_KEY, "")
        if not name and peer.identity is not None and SIGNATURE not in command.fields:
            return principal_of_user(self.user(peer.identity), source, Proof.CERTIFICATE)
        user = self.user(name)
        if not is_signed(command, user.secrets):
            raise refused("check signature failed.")
        return principal_of_user(user, source, Proof.SIGNATURE)

    def caller_of(self, authorization: str, date: str, source: str) -> Principal:
        """Return who signed a gRPC call. RequestRefused if nobody did, or so long ago that it may be a copy."""
        if not self._settings.authentication_enabled:
            return Principal(source=source)
        if not authorization:
            raise refused("username cannot be null.")
        if not date:
            raise refused("datetime is null.")
        try:
            given = call_signature(authorization)
        except ValueError as fault:
            raise refused(str(fault)) from None
        user = self.user(given.name)
        if not is_call_signed(given.digest, date, user.secrets):
            raise refused("check signature failed.")
        self._check_date(date)
        return principal_of_user(user, source, Proof.SIGNATURE)

    @property
    def call_signature_seconds(self) -> int:
        """Return how far the date of a gRPC call may be off; 0: it may be any text."""
        return self._settings.call_signature_seconds

    def _check_date(self, date: str) -> None:
        most = self.call_signature_seconds
        if not most:
            return
        try:
            signed_s = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise refused(f"x-mq-date-time {date!r} is no date like 20250131T235959Z") from None
        off = abs(self._clock.now_ms() / 1000 - signed_s)
        if off > most:
            raise refused(
                f"the call was signed {off:.0f} s away from now, {most} are allowed (callSignatureSeconds): "
                "set the clocks of client and server"
            )

    def user(self, name: str) -> User:
        """Return an enabled user. RequestRefused otherwise."""
        if not name:
            raise refused("username cannot be null.")
        user = self.directory.signer(name)
        if user is None:
            raise refused(f"User:{name} is not found.")
        if not user.is_enabled:
            raise refused(f"User:{name} is disabled.")
        return user

    # --- what ---------------------------------------------------------------------------------------------------------

    def rights_of(self, principal: Principal) -> Rights:
        """Return what a principal may do. Where nobody is judged, everybody may do everything."""
        if not self._settings.authorization_enabled:
            return EVERYTHING
        if principal.is_super:
            return SuperRights(self.directory, principal)
        if self._may_do_all(principal):
            return LetInRights(self.directory, principal, self._may_do_all)
        return UserRights(self.directory, principal)

    def _may_do_all(self, principal: Principal) -> bool:
        name, source = principal.name, principal.source
        if principal.is_super or self._white.unjudged.covers(source):
            return True
        return self._white.is_believed(name, source) and self.directory.is_derived(name)

    def allows(self, command: Command, principal: Principal) -> bool:
        """Tell whether somebody may have what a request asks for, by the rules that hold for every request."""
        try:
            self._judge(command, principal, lambda: ROWS[command.code].takes.read_body(command.body))
        except RequestRefused:
            return False
        return True

    def _judge(self, command: Command, principal: Principal, read_body: Callable[[], Any]) -> None:
        if not self._settings.authorization_enabled or str(command.code) in self._unjudged:
            return
        if command.code not in ROWS or self._may_do_all(principal) or (principal.is_known and _is_open(command)):
            return
        asked = wants(command, read_body, self._cluster)
        self.judge(principal, ROWS[command.code].name, asked)

    def admit(
        self, rpc: str, authorization: str, date: str, remote: str, asked: Callable[[], Iterable[Want]]
    ) -> Principal:
        """Return who makes a gRPC call, if he may have what it asks for. RequestRefused otherwise.

        `rpc`: the full name of the request's message, by which white lists name calls."""
        principal = Principal(source=source_of(remote))
        try:
            principal = self._caller(rpc, authorization, date, principal.source)
            self._judge_call(rpc, principal, asked)
        except RequestRefused as fault:
            self._report(principal, rpc, remote, str(fault))
            raise
        return principal

    def _caller(self, rpc: str, authorization: str, date: str, source: str) -> Principal:
        """Return who makes a call. RequestRefused if he has not signed it, and no white list lets it in."""
        try:
            return self.caller_of(authorization, date, source)
        except RequestRefused:
            found = self._let_in(claimed_name(authorization), source, "" if authorization else rpc)
            if found is None:
                raise
            return found

    def screen(self, rpc: str, authorization: str, date: str, remote: str) -> bool | None:
        """Return whether the headers of a gRPC call show who makes it. RequestRefused if they must, and do not.

        False: for this one nobody need say. None: whom it names is to `learn` first."""
        if self.caller_to_learn(authorization):
            return None
        source = source_of(remote)
        try:
            return self._caller(rpc, authorization, date, source).is_let_in
        except RequestRefused as fault:
            self._report(Principal(source=source), rpc, remote, str(fault))
            raise

    def allows_call(self, rpc: str, principal: Principal, asked: Callable[[], Iterable[Want]]) -> bool:
        """Tell whether somebody may make a gRPC call that asks for this."""
        try:
            self._judge_call(rpc, principal, asked)
        except RequestRefused:
            return False
        return True

    def _judge_call(self, rpc: str, principal: Principal, asked: Callable[[], Iterable[Want]]) -> None:
        if self._settings.authorization_enabled and rpc not in self._unjudged and not self._may_do_all(principal):
            self.judge(principal, rpc, asked())

    def judge(self, principal: Principal, what: str, asked: Iterable[Want]) -> None:
        """Raise RequestRefused unless a principal may have everything that is asked for."""
        if not principal.is_known:
            raise refused(f"nobody has permission to access {what} from {principal.source}")
        rights = UserRights(self.directory, principal)
        for want in asked:
            fault = rights.fault(want)
            if fault is not None:
                raise refused(fault)

    def _report(self, principal: Principal, what: int | str, address: str, why: str) -> None:
        self._warn.warning("request refused", request=what, user=principal.name, peer=address, why=why)
        for each in self.on_refusal:
            each(principal, what, address, why)


def source_of(address: str) -> str:
    """Return the machine of an address with a port."""
    return address.rpartition(":")[0].strip("[]")


def principal_of_user(user: User, source: str, proof: Proof) -> Principal:
    return Principal(user.name, user.is_super, source, proof)


def _is_open(command: Command) -> bool:
    """Tell whether a request is for every user: producers ask where topics are made that are not there yet."""
    return command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and command.fields.get("topic") == names.AUTO_CREATE_TOPIC
