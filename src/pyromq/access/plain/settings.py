"""Settings of ACL 1.0, with Java's names. Brokers alone have them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from ...config import setting
from ...errors import ConfigError
from ..settings import AccessSettings
from .files import MAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAclSettings:
    """Whether the files of ACL 1.0 count, and where they are."""

    acl_enable: bool = setting(
        False, help="accounts of ACL 1.0 (conf/plain_acl.yml, conf/acl) sign and are judged; needs the extra acl"
    )
    migrate_auth_from_v1_enabled: bool = setting(
        False, help="at the start, make users of the accounts of ACL 1.0 that there are no users of"
    )
    rocketmq_home: str = setting(
        factory=lambda: os.environ.get("ROCKETMQ_HOME", ""), help="folder in which conf/plain_acl.yml and conf/acl are"
    )
    acl_plain_file: str = setting(
        MAIN, java="rocketmq.acl.plain.file", help="the main file of ACL 1.0, below rocketmqHome"
    )

    def check_plain_acl(self) -> None:
        """Raise ConfigError where files shall be read, and nobody knows where they are."""
        wanted = [("aclEnable", self.acl_enable), ("migrateAuthFromV1Enabled", self.migrate_auth_from_v1_enabled)]
        for key, is_on in wanted:
            if is_on and not self.rocketmq_home:
                raise ConfigError(
                    f"{key} = true: the folder of conf/plain_acl.yml and conf/acl is not known; "
                    "set rocketmqHome, or ROCKETMQ_HOME in the environment"
                )

    @property
    def home(self) -> Path:
        return Path(self.rocketmq_home)

    def applied_to(self, settings: AccessSettings) -> AccessSettings:
        """Return the settings of users with what ACL 1.0 switches on: everybody is asked who he is, and judged."""
        if not self.acl_enable:
            return settings
        return replace(settings, authentication_enabled=True, authorization_enabled=True)
