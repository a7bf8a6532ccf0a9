"""Codecs that need a package of their own. `Json`, the usual one, is the SDK's: `client/values.py`."""
