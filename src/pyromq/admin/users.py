"""Users and what they may do (ACL 2.0). A subject is `User:name`."""

from __future__ import annotations

from ..protocol.bodies.body import encode_body
from ..protocol.bodies.users import AclInfo, UserInfo
from ..protocol.headers.users import AclSubject, DeleteAcl, ListAcls, ListUsers, UserName
from ..protocol.requests import RequestCode
from .calls import Calls, read


async def create(calls: Calls, address: str, user: UserInfo) -> None:
    header = UserName(username=user.username)
    await calls.broker(address, RequestCode.AUTH_CREATE_USER, header, encode_body(user))


async def change(calls: Calls, address: str, user: UserInfo) -> None:
    """What the user's value leaves out stays as it is."""
    header = UserName(username=user.username)
    await calls.broker(address, RequestCode.AUTH_UPDATE_USER, header, encode_body(user))


async def delete(calls: Calls, address: str, name: str) -> None:
    await calls.broker(address, RequestCode.AUTH_DELETE_USER, UserName(username=name))


async def one(calls: Calls, address: str, name: str) -> UserInfo | None:
    """None if there is no such user."""
    answer = await calls.broker(address, RequestCode.AUTH_GET_USER, UserName(username=name))
    return read(UserInfo, answer) if answer.body else None


async def all_users(calls: Calls, address: str, name_part: str | None = None) -> list[UserInfo]:
    answer = await calls.broker(address, RequestCode.AUTH_LIST_USER, ListUsers(filter=name_part))
    return read(list[UserInfo], answer) if answer.body else []


async def create_acl(calls: Calls, address: str, acl: AclInfo) -> None:
    await calls.broker(address, RequestCode.AUTH_CREATE_ACL, AclSubject(subject=acl.subject), encode_body(acl))


async def change_acl(calls: Calls, address: str, acl: AclInfo) -> None:
    await calls.broker(address, RequestCode.AUTH_UPDATE_ACL, AclSubject(subject=acl.subject), encode_body(acl))


async def delete_acl(calls: Calls, address: str, subject: str, resource: str | None = None) -> None:
    """All of a subject's permissions, or those for one resource."""
    await calls.broker(address, RequestCode.AUTH_DELETE_ACL, DeleteAcl(subject=subject, resource=resource))


async def acl(calls: Calls, address: str, subject: str) -> AclInfo | None:
    answer = await calls.broker(address, RequestCode.AUTH_GET_ACL, AclSubject(subject=subject))
    return read(AclInfo, answer) if answer.body else None


async def acls(
    calls: Calls, address: str, subject_part: str | None = None, resource_part: str | None = None
) -> list[AclInfo]:
    header = ListAcls(subject_filter=subject_part, resource_filter=resource_part)
    answer = await calls.broker(address, RequestCode.AUTH_LIST_ACL, header)
    return read(list[AclInfo], answer) if answer.body else []
