"""Finished Spark jobs over RocketMQ's data: functions of a session, and `pyromq pipeline NAME` on the command line."""
