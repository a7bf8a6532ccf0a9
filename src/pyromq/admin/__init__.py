"""Typed cluster operations over the wire: what `pyromq`, `mqadmin` and, later, the dashboard ask and tell.

async with connect(namesrv) as client:
    calls = Calls(client.session)
    for broker in await cluster.brokers(calls):
        print(await topics.configs(calls, broker.address))

Each file has the functions of one noun. They speak RocketMQ's own requests and so drive Apache's brokers too, except
where a docstring says "ours". They raise the errors of `client.errors` and print nothing.
"""
