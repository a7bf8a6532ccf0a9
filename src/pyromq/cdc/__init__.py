"""Change data capture: a database's log as messages, each stored once. See docs/cdc.md."""
