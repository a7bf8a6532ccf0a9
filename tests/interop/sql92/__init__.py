"""RocketMQ's own SQL92 module, asked by hand and by the benchmark: its answers are tests/golden/sql92.json."""
