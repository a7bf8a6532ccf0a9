"""Users and permissions: their table, the gate before all handlers, and what signs the broker's own requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from ...access.administration import HANDED_ON_BY, AccessAdmin, AccessRequest
from ...access.gate import AccessGate
from ...access.plain.layer import PlainLayer
from ...access.plain.migration import migrate
from ...access.plain.settings import PlainAclSettings
from ...access.sealing import SivSeal, key_of_phrase, new_key
from ...access.settings import AccessSettings
from ...access.sharing.stamps import Stamps
from ...access.signatures import SIGNING, inner_sign
from ...access.table import KEY, TABLE, AccessTable
from ...errors import PyroError, RequestRefused
from ...model.codes import ResponseCode
from ...protocol.command import Command
from ...protocol.headers.admin import ADMIN_ADDRESS
from ...store.files.disk import Disk, FileMissing, read_whole, replace_durably
from ...transport.client import RemotingClient
from ..metadata.saving import SaveSoon, for_administrators
from ..replication.tables.users import LeadersUsers, SetUsers
from .environment import Environment

HANDED_ON_S = 6.0  # longer than a master waits for its set


class SavedRows:
    """Implements `access.table.Rows` by a table of the store's folder."""

    def __init__(self, save: SaveSoon) -> None:
        self._save = save

    async def saved(self) -> None:
        await for_administrators(self._save.saved)()

    def load(self) -> Mapping[str, Any]:
        return self._save.table.load()

    def put(self, section: str, key: str, value: Any) -> None:
        self._save.table.put(section, key, value)
        self._save.changed()

    def drop(self, section: str, key: str) -> None:
        self._save.table.drop(section, key)
        self._save.changed()


class AccessParts:
    """Event loop only. `gate` None: nobody is asked who he is."""

    def __init__(self, environment: Environment) -> None:
        plain = environment.config.part(PlainAclSettings)
        settings = environment.config.access
        self._environment = environment
        self._save = environment.table(TABLE, after_log=True)
        seal = SivSeal(partial(_key, environment.disk, settings))
        stamps = Stamps(environment.clock.now_ms, environment.address)
        self.table = AccessTable(SavedRows(self._save), seal, stamps, settings.acl_conflict)
        # In an elected set each change of roles begins here: who was deleted stays so.
        self.table.begin(settings, revives=not environment.tables_in_log)
        if plain.migrate_auth_from_v1_enabled:
            migrate(self.table, plain.home, plain.acl_plain_file)
        if not plain.acl_enable:  # whose accounts get in
            self.table.warn_if_nobody(settings)
        self.admin = AccessAdmin(self.table, settings, is_loopback=environment.config.is_loopback)
        cluster = environment.config.broker_cluster_name
        gate = AccessGate(self.table.directory, settings, cluster=cluster, clock=environment.clock)
        self.gate = gate if settings.authentication_enabled else None
        self.sign = inner_sign(settings)
        self._keep = environment.loops.keep
        self._plain: PlainLayer | None = None
        if plain.acl_enable:
            self._plain = PlainLayer(
                plain.home,
                plain.acl_plain_file,
                gate,
                environment.run_blocking,
                environment.clock,
                environment.config.why_no_white_lists(),
            )
            self._plain.begin()
        self.of_set = SetUsers(self.table, self.admin.exchange)
        self.leaders: LeadersUsers | None = None
        if environment.recorder is not None:
            self.leaders = LeadersUsers(self.of_set, environment.disk, environment.recorder)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [] if self._plain is None else [self._keep("files of ACL 1.0", self._plain.watch)]

    def follow(self, client: RemotingClient, master: Callable[[], str | None]) -> None:
        """Take users from the log alone, and hand changes on to the master of the set."""
        if self.admin.exchange is not None:
            self.admin.exchange.takes = False

        async def hand_on(request: AccessRequest) -> None:
            command, address = request.command, master()
            if address is None or HANDED_ON_BY in command.fields:
                raise RequestRefused(
                    "users are changed at the master of this set, which is not known at the moment: ask again",
                    ResponseCode.SERVICE_NOT_AVAILABLE,
                )
            fields = {name: value for name, value in command.fields.items() if name not in SIGNING}
            fields[HANDED_ON_BY] = self._environment.address
            handed_on = Command(command.code, fields=fields, body=command.body)
            try:
                answer = await client.call(address, handed_on, HANDED_ON_S)
                apart = answer.fields.get(ADMIN_ADDRESS) if answer.code == ResponseCode.NO_PERMISSION else None
                if apart:  # the master refused before it changed anything
                    address = apart
                    answer = await client.call(address, handed_on, HANDED_ON_S)
            except PyroError as fault:
                raise RequestRefused(
                    f"users are changed at the master of this set, {address}, which does not answer: {fault}",
                    ResponseCode.SERVICE_NOT_AVAILABLE,
                ) from None
            if answer.code != ResponseCode.SUCCESS:
                raise RequestRefused(answer.remark or "", answer.code)

        self.admin.hand_on = hand_on

    async def saved(self) -> None:
        """Return once the table is on disk; PyroError: it is not, or it lacks users that cannot be read here, and who
        takes them from the log has to read it again with other settings."""
        await self.table.saved()
        trouble = self.of_set.trouble()
        if trouble is not None:
            raise PyroError(trouble)

    async def close_tables(self) -> None:
        await self._save.close()


def _key(disk: Disk, settings: AccessSettings) -> bytes:
    """Return what secrets are sealed with: of the setting, or of the key file, which is made when it is missing."""
    if settings.access_secret:
        return key_of_phrase(settings.access_secret)
    try:
        return read_whole(disk, KEY)
    except FileMissing:
        key = new_key()
        replace_durably(disk, KEY, key)
        return key
