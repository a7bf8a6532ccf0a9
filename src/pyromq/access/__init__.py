"""Users and what they may do: RocketMQ's ACL 2.0. Who serves requests asks `gate.py`; handlers ask their `rights`."""
