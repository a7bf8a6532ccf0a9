"""What Apache's broker 5.5.0 lets users do, asked by real requests: its answers are tests/golden/access/*.json.

`asks` has the requests, one for each place where a resource stands in one; `users` who asks, with policies for each
rule and random ones; `changes` steps that make and change users. `python -m tests.interop.decisions.record` starts the
brokers, asks and writes, `record_calls` does so with Apache's proxy and gRPC calls.
"""
