"""RocketMQ's data for Spark: an Arrow codec for records, and the data source `rocketmq` on top of it.

Nothing here imports Spark by itself: the codec works without it, and `source.py` is imported by Spark's own workers.
"""
