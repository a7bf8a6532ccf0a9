"""Programs that we did not write, fetched once and run as subprocesses: Java, Go, Node and C++.

Used by tests/interop and by bench/. `python -m tests.interop.peers fetch` brings everything beforehand.

    cache    where fetched things live, each fetched once, safe with several runs at the same time
    process  one subprocess: its lines, its readiness, its end
    java     Apache RocketMQ's name server, broker, client and mqadmin, by version
    node     ali-ons
    cpp      the C++ client inside PyPI's rocketmq 0.4.4
    go       rocketmq-client-go
    ours     `pyromq namesrv` and `pyromq broker` as subprocesses, with the same interfaces as Java's
"""
