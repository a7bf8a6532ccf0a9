"""MariaDB's log: decoded from bytes without a socket, and read from a server."""
