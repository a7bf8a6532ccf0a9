"""What Apache's broker 5.5.0 lets users do, asked by real requests: its answers are tests/golden/access/*.json.

asks     the requests, one for each place where a resource stands in a request
users    the users and their policies: each rule by hand, and random ones
record   `python -m tests.interop.decisions.record` starts the brokers, asks and writes
"""
