"""Every option has a test that shows what it does, and every option of Spark's Kafka connector has its place here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from pyromq.spark.options import ReadOptions, WriteOptions, declared

CASES = {
    # how to reach a cluster
    "nameServer": ("test_batch_read", "test_a_wrong_address_fails_in_seconds"),
    "connectTimeoutMs": ("test_write", "test_a_send_that_nobody_takes_ends_by_its_timeout"),
    "callTimeoutMs": ("test_connection", "test_silence_and_an_end_are_told_apart"),
    "accessKey": ("test_java_auth", "test_signed_rows_are_written_and_read_and_others_refused"),
    "secretKey": ("test_connection", "test_requests_are_signed_with_fields_and_body"),
    "securityToken": ("test_connection", "test_requests_are_signed_with_fields_and_body"),
    "tls": ("test_tls", "test_messages_there_and_back_by_tls"),
    "tls.ca": ("test_tls", "test_a_certificate_of_somebody_else_is_refused"),
    "tls.verify": ("test_tls", "test_a_server_that_wants_our_certificate_gets_it"),
    "tls.certificate": ("test_tls", "test_a_server_that_wants_our_certificate_gets_it"),
    "tls.key": ("test_tls", "test_a_server_that_wants_our_certificate_gets_it"),
    "tls.keyPassword": ("test_tls", "test_a_server_that_wants_our_certificate_gets_it"),
    # which messages
    "store": ("test_store_read", "test_a_store_of_javas_without_a_broker"),
    "topic": ("test_batch_read", "test_topics_by_list_pattern_and_assign"),
    "topicPattern": ("test_stream_read", "test_new_topics_and_queues_join_a_stream"),
    "assign": ("test_batch_read", "test_topics_by_list_pattern_and_assign"),
    "startingOffsets": ("test_stream_read", "test_a_stream_begins_where_it_is_told_to"),
    "startingTimestamp": ("test_batch_read", "test_starts_and_ends_by_time_for_all_and_by_topic_or_queue"),
    "startingOffsetsByTimestamp": ("test_stream_read", "test_a_stream_begins_where_it_is_told_to"),
    "startingOffsetsByTimestampStrategy": ("test_batch_read", "test_a_time_with_nothing_since_is_an_error_unless_told"),
    "endingOffsets": ("test_batch_read", "test_offsets_by_json_time_and_group"),
    "endingTimestamp": ("test_batch_read", "test_starts_and_ends_by_time_for_all_and_by_topic_or_queue"),
    "endingOffsetsByTimestamp": ("test_batch_read", "test_starts_and_ends_by_time_for_all_and_by_topic_or_queue"),
    "tags": ("test_batch_read", "test_tags_are_chosen_by_the_broker_and_told_apart_by_text"),
    "sql": ("test_batch_read", "test_sql_is_applied_by_the_broker"),
    "filterPushdown": ("test_pushed_filters", "test_without_the_option_everything_is_read"),
    "content": ("test_store_read", "test_damage_is_an_error_a_gap_or_a_report"),
    "verifyCrc": ("test_store_read", "test_a_record_whose_crc_is_wrong_is_read_where_that_is_asked_for"),
    # how they are read
    "failOnDataLoss": ("test_pulling", "test_retention_passes_the_start"),
    "mode": ("test_batch_read", "test_a_record_that_cannot_be_read_fails_is_left_out_or_has_no_body"),
    "maxOffsetsPerTrigger": ("test_stream_read", "test_limits_are_shared_and_available_now_has_a_fixed_end"),
    "minOffsetsPerTrigger": ("test_stream_read", "test_a_stream_waits_for_enough_messages_but_not_for_ever"),
    "maxTriggerDelay": ("test_stream_read", "test_a_stream_waits_for_enough_messages_but_not_for_ever"),
    "minPartitions": ("test_batch_read", "test_tasks_are_cut_by_number_and_by_size"),
    "maxRecordsPerPartition": ("test_batch_read", "test_tasks_are_cut_by_number_and_by_size"),
    "consumerGroup": ("test_stream_read", "test_lag_shows_in_mqadmin_and_our_own_tools"),
    "pullGroup": ("test_batch_read", "test_small_pulls_give_the_same"),
    "pullTimeoutMs": ("test_pulling", "test_without_progress_a_task_ends_by_pull_timeout"),
    "pullBatchSize": ("test_batch_read", "test_small_pulls_give_the_same"),
    "fetchOffset.numRetries": ("test_starting", "test_and_no_more_than_that"),
    "fetchOffset.retryIntervalMs": ("test_starting", "test_it_is_asked_again_a_few_times"),
    "arrowBatchRows": ("test_batch_read", "test_small_pulls_give_the_same"),
    # writes
    "producerGroup": ("test_write", "test_a_rate_is_kept"),
    "sendTimeoutMs": ("test_write", "test_a_send_that_nobody_takes_ends_by_its_timeout"),
    "maxBatchBytes": ("test_write", "test_small_requests_and_topics_by_row"),
    "maxMessagesPerSecond": ("test_write", "test_a_rate_is_kept"),
    "sendOnce": ("test_write", "test_without_a_window_it_is_at_least_once_or_refused"),
    "origin": ("test_write", "test_a_batch_write_under_a_name_is_stored_once_however_often_it_is_done"),
}
# All that Spark 4's documentation of its Kafka connector lists for queries, and the schema of its rows.
KAFKAS = (
    "kafka.bootstrap.servers", "assign", "subscribe", "subscribePattern", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "groupIdPrefix", "kafka.group.id", "includeHeaders",
    "key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType",
)  # fmt: skip


def test_every_option_has_a_case() -> None:
    assert CASES.keys() == {one.name for kind in (ReadOptions, WriteOptions) for _, one in declared(kind).values()}


def test_the_cases_are_there_and_use_their_option() -> None:
    for option, (module, name) in CASES.items():
        found = import_module(f"tests.spark.{module}")
        assert hasattr(found, name), (option, module, name)
        assert option in Path(str(found.__file__)).read_text("utf-8"), (option, module)


def test_the_page_for_those_who_come_from_kafka_has_all_that_they_know() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark-from-kafka.md").read_text("utf-8")
    assert [name for name in KAFKAS if name not in page] == []
