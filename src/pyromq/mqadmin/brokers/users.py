"""Users and permissions (ACL 2.0)."""

from __future__ import annotations

from ...access.users import unknown_words
from ...admin.users import own_end
from ...protocol.bodies.groups import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from ...protocol.headers.admin import AclSubject, DeleteAcl, ListAcls, ListUsers, UserChange, UserName
from ...protocol.requests import RequestCode
from ...protocol.row import B, H, Row
from ..command import Failed, Named, Run, command
from ..options import BROKER_OR_CLUSTER
from ..printing import Columns, java

USER = "-u username=  the user"
USER_TYPE = "[-t userType=]  Super or Normal"
FROM, TO = "-f fromBroker=  where they are, host:port", "-t toBroker=  where they go, host:port"
SUBJECT = "-s subject=  whom, User:name"
ACTIONS = "-a actions=  Pub, Sub, Create, Update, Delete, Get, List, All; with commas"
RESOURCES = "-r resources=  Topic:name, Group:prefix*, Cluster:*; with commas"
DECISION = "-d decision=  Allow or Deny"
SOURCES = "[-i sourceIp=]  only from these addresses, with commas"
USERS = Columns("{#UserName:<16}  {#Password:<22}  {#UserType:<22}  {#UserStatus:<22}")
ACLS = Columns("{#Subject:<16}  {#PolicyType:<10}  {#Resource:<22}  {#Actions:<20}  {#SourceIp:<24}  {#Decision:<10}")


async def _on_all_brokers(run: Run, what: str, row: Row[H, B, None, None], header: H, body: B | None = None) -> None:
    """Ask masters and slaves: each keeps users of its own."""
    await run.ask_each(await run.brokers(), f"{what} to {{}} success.", row, header, body)


@command("Create a user", BROKER_OR_CLUSTER, "-p password=  its password", USER_TYPE, USER)
async def create_user(run: Run) -> None:
    user = UserInfo(username=run["u"], password=run["p"], user_type=run.get("t") or None)
    _check_words(user)
    await _on_all_brokers(run, "create user", RequestCode.AUTH_CREATE_USER, UserName(username=run["u"]), user)


@command(
    "Change a user's password, type or status",
    BROKER_OR_CLUSTER,
    ("[-p password=]  a new password", "[-s userStatus=]  enable or disable", USER_TYPE),
    USER,
)
async def update_user(run: Run) -> None:
    password, status, kind = (run.get(name) or None for name in "pst")
    user = UserInfo(username=run["u"], password=password, user_status=status, user_type=kind)
    _check_words(user)
    _check_not_oneself(run, user)
    await _on_all_brokers(run, "update user", RequestCode.AUTH_UPDATE_USER, UserChange(username=run["u"]), user)


def _check_words(user: UserInfo) -> None:
    """Fail where a word is misspelt: brokers of Apache's take it as not given, and answer success."""
    if unknown := unknown_words(user.user_type, user.user_status):
        raise Failed(unknown)


def _check_not_oneself(run: Run, change: UserInfo | None = None) -> None:
    """Fail where somebody would shut himself out: the second broker would refuse what the first one has done."""
    if why := own_end(run.calls, run["u"], change):
        raise Failed(why)


@command("Delete a user", BROKER_OR_CLUSTER, USER)
async def delete_user(run: Run) -> None:
    _check_not_oneself(run)
    await _on_all_brokers(run, "delete user", RequestCode.AUTH_DELETE_USER, UserName(username=run["u"]))


def _print_users(run: Run, found: list[UserInfo]) -> None:
    if found:
        run.say(USERS.head)
    for one in found:
        run.say(USERS.format(java(one.username), java(one.password), java(one.user_type), java(one.user_status)))


@command("Show a user", BROKER_OR_CLUSTER, "[-u username=]  the user")
async def get_user(run: Run) -> None:
    if not run.get("u"):
        raise Failed("-u with the user's name is needed; listUser shows all")
    for address in await run.masters():
        _print_users(run, await _user(run, address, run["u"]))


async def _user(run: Run, address: str, name: str) -> list[UserInfo]:
    found = (await run.ask(address, RequestCode.AUTH_GET_USER, UserName(username=name))).body_or_none
    return [] if found is None else [found]


@command("All users", BROKER_OR_CLUSTER, "[-f filter=]  part of the name")
async def list_user(run: Run) -> None:
    for address in await run.masters():
        header = ListUsers(filter=run.get("f") or None)
        _print_users(run, (await run.ask(address, RequestCode.AUTH_LIST_USER, header)).body_or_none or [])
        if "c" in run:
            run.say(f"get user from {address} success.")


@command("Copy users to another broker", FROM, TO, "[-u usernames=]  only these, with commas")
async def copy_user(run: Run) -> None:
    source, target = run["f"], run["t"]
    for user in (await run.ask(source, RequestCode.AUTH_LIST_USER, ListUsers())).body_or_none or []:
        if "u" in run and user.username not in run.words("u"):
            continue
        is_there = await _user(run, target, user.username or "")
        if is_there:
            await run.ask(target, RequestCode.AUTH_UPDATE_USER, UserChange(username=user.username), user)
        else:
            await run.ask(target, RequestCode.AUTH_CREATE_USER, UserName(username=user.username), user)
        run.say(f"copy user of {user.username} from {source} to {target} success.")


# --- permissions ------------------------------------------------------------------------------------------------------


def _setting_acls(text: str, what: str, row: Row[AclSubject, AclInfo, None, None]) -> Named:
    async def change(run: Run) -> None:
        await _on_all_brokers(run, what, row, AclSubject(subject=run["s"]), _acl(run))

    return command(text, ACTIONS, BROKER_OR_CLUSTER, DECISION, SOURCES, RESOURCES, SUBJECT)(change)


create_acl = _setting_acls("Give or deny permissions to a user", "create acl", RequestCode.AUTH_CREATE_ACL)
update_acl = _setting_acls("Change permissions of a user", "update acl", RequestCode.AUTH_UPDATE_ACL)


def _acl(run: Run) -> AclInfo:
    sources = run.words("i") or None
    entries = [
        PolicyEntryInfo(resource=each, actions=run.words("a"), decision=run["d"], source_ips=sources)
        for each in run.words("r")
    ]
    return AclInfo(subject=run["s"], policies=[PolicyInfo(entries=entries)])


@command("Delete permissions of a user", BROKER_OR_CLUSTER, SUBJECT)
async def delete_acl(run: Run) -> None:
    """[-r resources=]  only those for these, with commas"""
    for address in await run.brokers():
        for resource in run.words("r") or [""]:
            header = DeleteAcl(subject=run["s"], resource=resource or None)
            await run.ask(address, RequestCode.AUTH_DELETE_ACL, header)
        run.say(f"delete acl to {address} success.")


def _print_acls(run: Run, found: list[AclInfo]) -> None:
    if found:
        run.say(ACLS.head)
    for one in found:
        entries = [(policy, entry) for policy in one.policies or [] for entry in policy.entries]
        if not entries:
            run.say(ACLS.format(java(one.subject), "", "", "", "", ""))
        for policy, entry in entries:
            what = (java(policy.policy_type), java(entry.resource), java(entry.actions))
            run.say(ACLS.format(java(one.subject), *what, java(entry.source_ips), java(entry.decision)))


@command("Permissions of a user", BROKER_OR_CLUSTER, "[-s subject=]  whom, User:name")
async def get_acl(run: Run) -> None:
    if not run.get("s"):
        raise Failed("-s with the subject, User:name, is needed; listAcl shows all")
    for address in await run.masters():
        found = (await run.ask(address, RequestCode.AUTH_GET_ACL, AclSubject(subject=run["s"]))).body_or_none
        _print_acls(run, [found] if found is not None else [])


@command("All permissions", BROKER_OR_CLUSTER)
async def list_acl(run: Run) -> None:
    """[-r resource=]  part of the resource
    [-s subject=]      part of the subject"""
    for address in await run.masters():
        _print_acls(run, await _acls(run, address, run.get("s") or None, run.get("r") or None))


async def _acls(run: Run, address: str, subject: str | None = None, resource: str | None = None) -> list[AclInfo]:
    header = ListAcls(subject_filter=subject, resource_filter=resource)
    return (await run.ask(address, RequestCode.AUTH_LIST_ACL, header)).body_or_none or []


@command("Copy permissions to another broker", FROM, "[-s subjects=]  only those of these, with commas", TO)
async def copy_acl(run: Run) -> None:
    source, target = run["f"], run["t"]
    known = {each.subject for each in await _acls(run, target)}
    for acl in await _acls(run, source):
        if "s" in run and acl.subject not in run.words("s"):
            continue
        row = RequestCode.AUTH_UPDATE_ACL if acl.subject in known else RequestCode.AUTH_CREATE_ACL
        await run.ask(target, row, AclSubject(subject=acl.subject), acl)
        run.say(f"copy acl of {acl.subject} from {source} to {target} success.")
