"""Where a database is, and who we are to it: read from the setting databaseUrl. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ..errors import ConfigError

_SCHEMES = {"mariadb": "mariadb", "mysql": "mysql", "postgresql": "postgresql", "postgres": "postgresql"}
_PORTS = {"mariadb": 3306, "mysql": 3306, "postgresql": 5432}
_FORMS = {
    "mariadb": "mariadb://USER@HOST:3306",
    "mysql": "mysql://USER@HOST:3306",
    "postgresql": "postgresql://USER@HOST:5432/DATABASE",
}
_EITHER = " or ".join(_FORMS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """One server. `database` is PostgreSQL's, where a connection is to one database; empty of MariaDB and MySQL."""

    kind: str = "mariadb"
    host: str
    port: int
    user: str
    password: str
    database: str = ""
    tls_ca: str = ""
    connect_s: float = 10.0


def read_address(url: str, password: str, tls_ca: str) -> ServerAddress:
    """Return what a URL says. ConfigError if it says too little, or names a database that is not captured."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as fault:
        raise ConfigError(f"databaseUrl cannot be read: {fault}. Write {_EITHER}") from None
    if parts.scheme and parts.scheme not in _SCHEMES:
        raise ConfigError(
            f"databaseUrl: {parts.scheme} is not captured, MariaDB, MySQL and PostgreSQL are: write {_EITHER}"
        )
    kind = _SCHEMES.get(parts.scheme, "mariadb")
    if not parts.hostname or not parts.username:
        raise ConfigError(f"databaseUrl names no server and user: write {_FORMS[kind] if parts.scheme else _EITHER}")
    database = unquote(parts.path.strip("/"))
    if kind == "postgresql" and not database:
        raise ConfigError(f"databaseUrl names no database: write {_FORMS[kind]}")
    return ServerAddress(
        kind=kind,
        host=parts.hostname,
        port=port or _PORTS[kind],
        user=unquote(parts.username),
        password=password or unquote(parts.password or ""),
        database=database if kind == "postgresql" else "",
        tls_ca=tls_ca,
    )
