"""Messages and names: checked, turned into properties and records and back. Pure."""
