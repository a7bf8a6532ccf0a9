"""Users and policies told to the other servers that have the same inner credentials: the newest change of each wins."""
