"""PyroMQ: Apache RocketMQ's whole system in Python. Import from the rooms; this front door only names the version."""

__version__ = "0.1.0"
