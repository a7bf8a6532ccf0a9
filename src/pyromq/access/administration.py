"""What requests 3001 to 3010 do to users and policies, with the codes and words of 5.5.0.

Brokers and name servers serve them alike. A change is answered once it is on disk. Passwords are shown to super users
alone, who may set any password anyway, and to the servers of the cluster; 5.5.0 shows them to everybody who may ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from .. import logs
from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..protocol.bodies.groups import AclInfo, UserInfo
from ..protocol.bodies.own import UserChanges, UserChangesAnswer
from ..protocol.requests import RequestCode
from ..protocol.row import AnyRow
from .directory import refused
from .forms import acl_info, policies_of, subject_name, user_info, user_status, user_type
from .gate import GatedPeer, GatedRequest
from .patterns import Pattern
from .policies import PolicyKind
from .settings import AccessSettings
from .sharing.exchange import UserExchange
from .sharing.listeners import ListeningPeer, UserListeners
from .signatures import inner_sign
from .table import AccessTable
from .users import User, UserStatus, UserType, unknown_words

log = logs.get("pyromq.access")

HANDED_ON_BY = "handedOnBy"  # a field of a request that a server hands on to the one that makes changes: its address

_ONLY_SUPER = "The super user can only be {} by super user"


class AccessPeer(GatedPeer, ListeningPeer, Protocol):
    """The other end of a connection, which may be asked something."""


class AccessRequest(GatedRequest, Protocol):
    """A request whose header is read, too."""

    @property
    def peer(self) -> AccessPeer: ...

    @property
    def header(self) -> Any: ...

    @property
    def raw_body(self) -> bytes: ...


Answering = Callable[[AccessRequest], Awaitable[Any]]


class AccessAdmin:
    """Event loop only. Each method returns the body of the answer; None: it has none."""

    def __init__(self, table: AccessTable, settings: AccessSettings, *, is_loopback: bool) -> None:
        """`is_loopback`: only programs of this machine reach the server."""
        self._table, self._directory = table, table.directory
        self._is_open = not (is_loopback or settings.authentication_enabled)
        inner = settings.inner_credentials()
        self._inner = "" if inner is None else inner.name
        self._shows_all = settings.allow_copy_user
        self.exchange = None if inner is None else UserExchange(table, inner)
        self.announce: Callable[[str], Awaitable[None]] = _nobody  # the other servers, before a change is answered
        sign = inner_sign(settings)
        self.listeners = None if sign is None else UserListeners(sign)
        self.counts_callers: Callable[[], bool] = lambda: False  # whose use of this server a request is, quotas ask
        # To the server that makes changes; None: that is this one. RequestRefused says why it was not made there.
        self.hand_on: Callable[[AccessRequest], Awaitable[None]] | None = None

    def answers(self) -> dict[AnyRow, Answering]:
        """Return what answers each request."""
        return {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.get_user,
            RequestCode.AUTH_LIST_USER: self.list_users,
            RequestCode.AUTH_CREATE_ACL: self.put_policies,
            RequestCode.AUTH_UPDATE_ACL: self.put_policies,
            RequestCode.AUTH_DELETE_ACL: self.delete_policies,
            RequestCode.AUTH_GET_ACL: self.get_policies,
            RequestCode.AUTH_LIST_ACL: self.list_policies,
            RequestCode.SHARE_USERS: self.hear,
        }

    # --- users ------------------------------------------------------------------------------------------------------

    def _check_closed(self) -> None:
        """Raise RequestRefused where a stranger may have sent a change.

        His super user would be let in when authentication is turned on one day, and nobody would know of him."""
        if self._is_open:
            raise refused(
                "users and policies are not changed while other machines reach this server and nobody is asked who he "
                "is (authenticationEnabled=false): start it with authenticationEnabled=true and "
                "initAuthenticationUser, who makes the others"
            )

    async def create_user(self, request: AccessRequest) -> None:
        self._check_closed()
        name, info = _name(request), _info(request)
        type_ = user_type(info.user_type) or UserType.NORMAL
        _check_super(request, type_, "create")
        if await self._is_made_elsewhere(request):
            return
        secret = info.password or ""
        old = self._directory.find(name)
        if old is not None and self._may_repeat(request, name) and (old.secrets[0], old.type) == (secret, type_):
            return
        with self._table.handed_on(self._handed_on_by(request)):
            self._directory.create(User(name, (secret,), type_, user_status(info.user_status) or UserStatus.ENABLED))
        await self._saved(request, "user created", name, type=type_.value)

    async def update_user(self, request: AccessRequest) -> None:
        self._check_closed()
        name, info = _name(request), _info(request)
        if unknown := unknown_words(info.user_type, info.user_status):
            raise refused(unknown)  # left out, as RocketMQ does, it would be answered success and change nothing
        type_, status = user_type(info.user_type), user_status(info.user_status)
        old = self._directory.find(name)
        for each in (type_, None if old is None else old.type):
            _check_super(request, each, "update")
        if status is UserStatus.DISABLED or type_ is UserType.NORMAL:
            self._check_not_inner(name)
        if await self._is_made_elsewhere(request):
            return
        header = request.header
        with self._table.handed_on(self._handed_on_by(request)):
            if header.drop_old:
                self._directory.drop_old_secret(name)
            self._directory.update(name, info.password, type_, status, keep_old=bool(header.keep_old))
        await self._saved(request, "user changed", name, password=bool(info.password), type=type_ and type_.value)

    async def delete_user(self, request: AccessRequest) -> None:
        self._check_closed()
        name = request.header.username or ""
        user = self._directory.find(name)
        _check_super(request, None if user is None else user.type, "update")
        self._check_not_inner(name)
        if await self._is_made_elsewhere(request):
            return
        with self._table.handed_on(self._handed_on_by(request)):
            self._directory.delete(name)
        await self._saved(request, "user deleted", name)

    def _check_not_inner(self, name: str) -> None:
        """Raise RequestRefused for the user that servers sign as: without him they would refuse each other."""
        if name and name == self._inner:
            raise refused(
                f"{name} is the user that this server and others sign their requests to each other as "
                "(innerClientAuthenticationCredentials), a super user who is let in: name another one there on all "
                f"servers and restart them first, or replace his secret (pyromq user rotate {name})"
            )

    async def get_user(self, request: AccessRequest) -> UserInfo | None:
        name = request.header.username
        if name is None or not name.strip():
            raise RequestRefused("The username is blank", ResponseCode.INVALID_PARAMETER)
        user = self._directory.find(name)
        return None if user is None else user_info(user, with_secret=self._shows_secrets(request))

    async def list_users(self, request: AccessRequest) -> list[UserInfo] | None:
        wanted, shows = request.header.filter or "", self._shows_secrets(request)
        users = sorted(self._directory.users.items())
        return [user_info(user, with_secret=shows) for name, user in users if wanted.strip() in name] or None

    def _shows_secrets(self, request: AccessRequest) -> bool:
        who = request.principal
        return who.is_super and (self._shows_all or who.name == self._inner)

    # --- policies ---------------------------------------------------------------------------------------------------

    async def put_policies(self, request: AccessRequest) -> None:
        self._check_closed()
        info: AclInfo | None = request.body if request.raw_body else None
        if info is None or not info.policies:
            raise RequestRefused("The body of acl is null")
        if await self._is_made_elsewhere(request):
            return
        name = subject_name(info.subject if info.subject is not None else request.header.subject)
        before = acl_info(name, self._directory.policies.get(name, ()))
        with self._table.handed_on(self._handed_on_by(request)):
            self._directory.put(name, policies_of(info))
        await self._saved(request, "policies changed", name, before=_text(before), after=self._policies_text(name))

    async def delete_policies(self, request: AccessRequest) -> None:
        self._check_closed()
        if await self._is_made_elsewhere(request):
            return
        header = request.header
        name = subject_name(header.subject)
        wanted = (header.policy_type or "").lower()
        kind = next((each for each in PolicyKind if each.value.lower() == wanted), PolicyKind.CUSTOM)
        before = self._policies_text(name)
        if self._directory.find(name) is not None and not before and self._may_repeat(request, name):
            return
        with self._table.handed_on(self._handed_on_by(request)):
            self._directory.remove(name, kind, Pattern.parse(header.resource))
        await self._saved(request, "policies changed", name, before=before, after=self._policies_text(name))

    async def get_policies(self, request: AccessRequest) -> AclInfo | None:
        name = subject_name(request.header.subject)
        if self._directory.find(name) is None:
            raise RequestRefused("The subject is not exist.", ResponseCode.NO_PERMISSION)
        return acl_info(name, self._directory.policies.get(name, ()))

    async def list_policies(self, request: AccessRequest) -> list[AclInfo] | None:
        header = request.header
        subject, resource = (header.subject_filter or "").strip(), header.resource_filter or ""
        found = (
            acl_info(name, policies, resource)
            for name, policies in sorted(self._directory.policies.items())
            if subject in f"User:{name}"
        )
        return [one for one in found if one is not None] or None

    async def hear(self, request: AccessRequest) -> UserChangesAnswer:
        """Take what another server tells of users."""
        if self.exchange is None or not request.principal.is_known:
            raise refused(
                "this server takes users from no other: it needs authenticationEnabled=true and "
                "innerClientAuthenticationCredentials"
            )
        told: UserChanges = request.body
        news = self.exchange.news(told.entries)
        answer = await self.exchange.answer(request.principal.name, told, request.peer.address)
        if told.is_listening and self.listeners is not None:
            self.listeners.add(request.peer)
        if news:  # who listens here may not have heard it where the change was made
            await self.announce_to_listeners(*news)
        answer.counts_callers = self.counts_callers()
        return answer

    async def announce_to_listeners(self, *names: str) -> None:
        """Tell gateways of these users, and whether they are to say whose use of this server a request is."""
        if self.exchange is not None and self.listeners is not None and self.listeners.peers:
            told = self.exchange.question(names)
            told.counts_callers = self.counts_callers()
            await self.listeners.announce(told)

    # --- changes where there are other servers ----------------------------------------------------------------------

    async def _is_made_elsewhere(self, request: AccessRequest) -> bool:
        """Hand a change on, if another server makes changes. RequestRefused: that one refuses it, or is away."""
        if self.hand_on is None:
            return False
        await self.hand_on(request)
        return True

    def _may_repeat(self, request: AccessRequest, name: str) -> bool:
        """Tell whether a change that was made may be asked for once more: tools ask one server after the other, and
        this one was told of it by the first."""
        return bool(self._handed_on_by(request)) or self._table.stamps.is_from_elsewhere(name)

    def _handed_on_by(self, request: AccessRequest) -> str:
        """Return which server handed a request on to this one; empty: none."""
        who = request.principal
        return request.command.fields.get(HANDED_ON_BY, "") if who.name == self._inner or not who.is_known else ""

    # --- both -------------------------------------------------------------------------------------------------------

    def _policies_text(self, name: str) -> str:
        return _text(acl_info(name, self._directory.policies.get(name, ())))

    async def _saved(self, request: AccessRequest, what: str, name: str, **facts: Any) -> None:
        await self._table.saved()
        await asyncio.gather(self.announce(name), self.announce_to_listeners(name))
        log.info(what, user=name, by=request.principal.name or request.peer.address, **facts)


async def _nobody(name: str) -> None:
    return None


def _text(info: AclInfo | None) -> str:
    return "" if info is None else msgspec.json.encode(info.policies).decode()


def _name(request: AccessRequest) -> str:
    name: str | None = request.header.username
    if not name:
        raise RequestRefused("The username is blank", ResponseCode.INVALID_PARAMETER)
    return name


def _info(request: AccessRequest) -> UserInfo:
    info: UserInfo = request.body if request.raw_body else UserInfo()
    return info


def _check_super(request: AccessRequest, type_: UserType | None, what: str) -> None:
    """Raise RequestRefused where a super user is concerned, and somebody else asks who is known or let in."""
    who = request.principal
    if type_ is UserType.SUPER and who.is_let_in and not who.is_super:
        raise RequestRefused(_ONLY_SUPER.format(what))
