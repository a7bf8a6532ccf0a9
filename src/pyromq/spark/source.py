"""The data source `rocketmq`: hands options to readers and writers. Spark finds it as `pyspark_rocketmq.DefaultSource`.

Readers and writers are imported when they are asked for: Spark makes this object in many processes, for many reasons.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from .options import Use, read_options, write_options
from .schema import DDL


class RocketMQSource(DataSource):
    """`self.options` is Spark's own map, whose keys have no case: it is never copied into a plain dict."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        if str(self.options.get("content", "")).strip().lower() == "damage":
            from .store.store_read import DAMAGE_DDL

            return DAMAGE_DDL
        return DDL

    def _given(self) -> Mapping[str, str]:
        return self.options

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self._given(), Use.BATCH)
        if options.store:
            from .store.store_read import StoreReader

            return StoreReader(options, schema)
        if options.filter_pushdown:
            from .read.pushdown import FilteringReader

            return FilteringReader(options, schema)
        from .read.batch_read import BatchReader

        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from .read.stream_read import StreamReader

        return StreamReader(read_options(self._given(), Use.STREAM), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .write.batch_write import BatchWriter, check_mode

        check_mode(overwrite)
        return BatchWriter(write_options(self._given()), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from .write.stream_write import StreamWriter

        return StreamWriter(write_options(self._given()), schema)
