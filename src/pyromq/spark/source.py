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

from ..errors import ConfigError
from .failures import shown_in_a_sentence
from .options import Use, check_options, check_read, read_options, write_options
from .schema import DDL


class RocketMQSource(DataSource):
    """`self.options` is Spark's own map, whose keys have no case: it is never copied into a plain dict."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Refuse what is wrong for every use: here Spark is still in `load`, `save` or `start` of the user's code."""
        super().__init__(options)  # type: ignore[arg-type]
        with shown_in_a_sentence():
            check_options(options)

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    @shown_in_a_sentence()
    def schema(self) -> str:
        """Return the columns of a read, which Spark asks for in `load`, of reads alone, unless they are given."""
        check_read(self.options)
        if str(self.options.get("content", "")).strip().lower() == "damage":
            from .store.store_read import DAMAGE_DDL

            return DAMAGE_DDL
        return DDL

    @shown_in_a_sentence()
    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, Use.BATCH)
        if options.store:
            from .store.store_read import StoreReader

            return StoreReader(options, schema)
        from .read.batch_read import BatchReader

        return BatchReader(options, schema)

    @shown_in_a_sentence()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from .read.stream_read import StreamReader

        return StreamReader(read_options(self.options, Use.STREAM), schema)

    @shown_in_a_sentence()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .write.writers import BatchWriter

        if overwrite:
            raise ConfigError("mode('overwrite'): messages that were sent cannot be overwritten; use mode('append')")
        return BatchWriter(write_options(self.options), schema)

    @shown_in_a_sentence()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from .write.writers import StreamWriter

        return StreamWriter(write_options(self.options), schema)
