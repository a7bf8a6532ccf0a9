"""What servers with the same inner credentials say to each other of users: the newest change of each wins."""
