"""A file per RPC or two: plain functions of the services, who calls, and the request. `methods.py` has the table."""
