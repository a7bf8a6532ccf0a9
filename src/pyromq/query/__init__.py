"""SQL over topics and store files: DuckDB asks, and only what a query needs is read. Loaded with `pyromq.sql`.

Needs the extra `sql` (DuckDB and Arrow), not Spark.
"""
