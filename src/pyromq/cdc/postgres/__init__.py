"""PostgreSQL as a source: its logical decoding, read by a connection of our own."""
