"""The messages of `apache.rocketmq.v2` as 5.5.0 has them (rocketmq-apis 2.1.2): one table, from which `v2.py` is made.

A field reads `name=number:type`. `optional` has presence although it is a plain value, `oneof g` is set alone in its
group g, `map` is from string to string. Duration and Timestamp are Google's. Numbers and names are the wire's: never
change one.
"""

from __future__ import annotations

from typing import NamedTuple

from ...model.wire_text import whole_number

MESSAGES = """
FilterExpression: type=1:FilterType; expression=2:string
RetryPolicy: max_attempts=1:int32; exponential_backoff=2:oneof strategy ExponentialBackoff;
    customized_backoff=3:oneof strategy CustomizedBackoff
ExponentialBackoff: initial=1:Duration; max=2:Duration; multiplier=3:float
CustomizedBackoff: next=1:repeated Duration
Resource: resource_namespace=1:string; name=2:string
SubscriptionEntry: topic=1:Resource; expression=2:FilterExpression
Address: host=1:string; port=2:int32
Endpoints: scheme=1:AddressScheme; addresses=2:repeated Address
Broker: name=1:string; id=2:int32; endpoints=3:Endpoints
MessageQueue: topic=1:Resource; id=2:int32; permission=3:Permission; broker=4:Broker;
    accept_message_types=5:repeated MessageType
Digest: type=1:DigestType; checksum=2:string
SystemProperties: tag=1:optional string; keys=2:repeated string; message_id=3:string; body_digest=4:Digest;
    body_encoding=5:Encoding; message_type=6:MessageType; born_timestamp=7:Timestamp; born_host=8:string;
    store_timestamp=9:optional Timestamp; store_host=10:string; delivery_timestamp=11:optional Timestamp;
    receipt_handle=12:optional string; queue_id=13:int32; queue_offset=14:optional int64;
    invisible_duration=15:optional Duration; delivery_attempt=16:optional int32; message_group=17:optional string;
    trace_context=18:optional string; orphaned_transaction_recovery_duration=19:optional Duration;
    dead_letter_queue=20:optional DeadLetterQueue; lite_topic=21:optional string; priority=22:optional int32
DeadLetterQueue: topic=1:string; message_id=2:string
Message: topic=1:Resource; user_properties=2:map; system_properties=3:SystemProperties; body=4:bytes
Assignment: message_queue=1:MessageQueue
Status: code=1:Code; message=2:string
UA: language=1:Language; version=2:string; platform=3:string; hostname=4:string
Settings: client_type=1:optional ClientType; access_point=2:optional Endpoints; backoff_policy=3:optional
    RetryPolicy; request_timeout=4:optional Duration; publishing=5:oneof pub_sub Publishing; subscription=6:oneof
    pub_sub Subscription; user_agent=7:UA; metric=8:Metric; client_properties=9:map
Publishing: topics=1:repeated Resource; max_body_size=2:int32; validate_message_type=3:bool
Subscription: group=1:optional Resource; subscriptions=2:repeated SubscriptionEntry; fifo=3:optional bool;
    receive_batch_size=4:optional int32; long_polling_timeout=5:optional Duration;
    lite_subscription_quota=6:optional int32; max_lite_topic_size=7:optional int32
Metric: on=1:bool; endpoints=2:optional Endpoints
OffsetOption: policy=1:oneof offset_type OffsetPolicy; offset=2:oneof offset_type int64; tail_n=3:oneof offset_type
    int64; timestamp=4:oneof offset_type int64
QueryRouteRequest: topic=1:Resource; endpoints=2:Endpoints
QueryRouteResponse: status=1:Status; message_queues=2:repeated MessageQueue
SendMessageRequest: messages=1:repeated Message
SendResultEntry: status=1:Status; message_id=2:string; transaction_id=3:string; offset=4:int64;
    recall_handle=5:string
SendMessageResponse: status=1:Status; entries=2:repeated SendResultEntry
QueryAssignmentRequest: topic=1:Resource; group=2:Resource; endpoints=3:Endpoints
QueryAssignmentResponse: status=1:Status; assignments=2:repeated Assignment
ReceiveMessageRequest: group=1:Resource; message_queue=2:MessageQueue; filter_expression=3:FilterExpression;
    batch_size=4:int32; invisible_duration=5:optional Duration; auto_renew=6:bool; long_polling_timeout=7:optional
    Duration; attempt_id=8:optional string
ReceiveMessageResponse: status=1:oneof content Status; message=2:oneof content Message; delivery_timestamp=3:oneof
    content Timestamp
AckMessageEntry: message_id=1:string; receipt_handle=2:string; lite_topic=3:optional string
AckMessageRequest: group=1:Resource; topic=2:Resource; entries=3:repeated AckMessageEntry
AckMessageResultEntry: message_id=1:string; receipt_handle=2:string; status=3:Status
AckMessageResponse: status=1:Status; entries=2:repeated AckMessageResultEntry
ForwardMessageToDeadLetterQueueRequest: group=1:Resource; topic=2:Resource; receipt_handle=3:string;
    message_id=4:string; delivery_attempt=5:int32; max_delivery_attempts=6:int32; lite_topic=7:optional string
ForwardMessageToDeadLetterQueueResponse: status=1:Status
HeartbeatRequest: group=1:optional Resource; client_type=2:ClientType
HeartbeatResponse: status=1:Status
EndTransactionRequest: topic=1:Resource; message_id=2:string; transaction_id=3:string;
    resolution=4:TransactionResolution; source=5:TransactionSource; trace_context=6:string
EndTransactionResponse: status=1:Status
PrintThreadStackTraceCommand: nonce=1:string
ReconnectEndpointsCommand: nonce=1:string
ThreadStackTrace: nonce=1:string; thread_stack_trace=2:optional string
VerifyMessageCommand: nonce=1:string; message=2:Message
VerifyMessageResult: nonce=1:string
RecoverOrphanedTransactionCommand: message=1:Message; transaction_id=2:string
NotifyUnsubscribeLiteCommand: lite_topic=1:string
TelemetryCommand: status=1:optional Status; settings=2:oneof command Settings; thread_stack_trace=3:oneof command
    ThreadStackTrace; verify_message_result=4:oneof command VerifyMessageResult;
    recover_orphaned_transaction_command=5:oneof command RecoverOrphanedTransactionCommand;
    print_thread_stack_trace_command=6:oneof command PrintThreadStackTraceCommand; verify_message_command=7:oneof
    command VerifyMessageCommand; reconnect_endpoints_command=8:oneof command ReconnectEndpointsCommand;
    notify_unsubscribe_lite_command=9:oneof command NotifyUnsubscribeLiteCommand
NotifyClientTerminationRequest: group=1:optional Resource
NotifyClientTerminationResponse: status=1:Status
ChangeInvisibleDurationRequest: group=1:Resource; topic=2:Resource; receipt_handle=3:string;
    invisible_duration=4:Duration; message_id=5:string; lite_topic=6:optional string; suspend=7:optional bool
ChangeInvisibleDurationResponse: status=1:Status; receipt_handle=2:string
PullMessageRequest: group=1:Resource; message_queue=2:MessageQueue; offset=3:int64; batch_size=4:int32;
    filter_expression=5:FilterExpression; long_polling_timeout=6:Duration
PullMessageResponse: status=1:oneof content Status; message=2:oneof content Message; next_offset=3:oneof content
    int64
UpdateOffsetRequest: group=1:Resource; message_queue=2:MessageQueue; offset=3:int64
UpdateOffsetResponse: status=1:Status
GetOffsetRequest: group=1:Resource; message_queue=2:MessageQueue
GetOffsetResponse: status=1:Status; offset=2:int64
QueryOffsetRequest: message_queue=1:MessageQueue; query_offset_policy=2:QueryOffsetPolicy; timestamp=3:optional
    Timestamp
QueryOffsetResponse: status=1:Status; offset=2:int64
RecallMessageRequest: topic=1:Resource; recall_handle=2:string
RecallMessageResponse: status=1:Status; message_id=2:string
SyncLiteSubscriptionRequest: action=1:LiteSubscriptionAction; topic=2:Resource; group=3:Resource;
    lite_topic_set=4:repeated string; version=5:optional int64; offset_option=6:optional OffsetOption
SyncLiteSubscriptionResponse: status=1:Status
"""

ENUMS = """
TransactionResolution: TRANSACTION_RESOLUTION_UNSPECIFIED=0 COMMIT=1 ROLLBACK=2
TransactionSource: SOURCE_UNSPECIFIED=0 SOURCE_CLIENT=1 SOURCE_SERVER_CHECK=2
Permission: PERMISSION_UNSPECIFIED=0 NONE=1 READ=2 WRITE=3 READ_WRITE=4
FilterType: FILTER_TYPE_UNSPECIFIED=0 TAG=1 SQL=2
AddressScheme: ADDRESS_SCHEME_UNSPECIFIED=0 IPv4=1 IPv6=2 DOMAIN_NAME=3
MessageType: MESSAGE_TYPE_UNSPECIFIED=0 NORMAL=1 FIFO=2 DELAY=3 TRANSACTION=4 LITE=5 PRIORITY=6
DigestType: DIGEST_TYPE_UNSPECIFIED=0 CRC32=1 MD5=2 SHA1=3
ClientType: CLIENT_TYPE_UNSPECIFIED=0 PRODUCER=1 PUSH_CONSUMER=2 SIMPLE_CONSUMER=3 PULL_CONSUMER=4
    LITE_PUSH_CONSUMER=5 LITE_SIMPLE_CONSUMER=6
Encoding: ENCODING_UNSPECIFIED=0 IDENTITY=1 GZIP=2
Code: CODE_UNSPECIFIED=0 OK=20000 MULTIPLE_RESULTS=30000 BAD_REQUEST=40000 ILLEGAL_ACCESS_POINT=40001
    ILLEGAL_TOPIC=40002 ILLEGAL_CONSUMER_GROUP=40003 ILLEGAL_MESSAGE_TAG=40004 ILLEGAL_MESSAGE_KEY=40005
    ILLEGAL_MESSAGE_GROUP=40006 ILLEGAL_MESSAGE_PROPERTY_KEY=40007 INVALID_TRANSACTION_ID=40008
    ILLEGAL_MESSAGE_ID=40009 ILLEGAL_FILTER_EXPRESSION=40010 ILLEGAL_INVISIBLE_TIME=40011
    ILLEGAL_DELIVERY_TIME=40012 INVALID_RECEIPT_HANDLE=40013 MESSAGE_PROPERTY_CONFLICT_WITH_TYPE=40014
    UNRECOGNIZED_CLIENT_TYPE=40015 MESSAGE_CORRUPTED=40016 CLIENT_ID_REQUIRED=40017 ILLEGAL_POLLING_TIME=40018
    ILLEGAL_OFFSET=40019 ILLEGAL_LITE_TOPIC=40020 INVALID_CLIENT_PROPERTIES=40021 UNAUTHORIZED=40100
    PAYMENT_REQUIRED=40200 FORBIDDEN=40300 NOT_FOUND=40400 MESSAGE_NOT_FOUND=40401 TOPIC_NOT_FOUND=40402
    CONSUMER_GROUP_NOT_FOUND=40403 OFFSET_NOT_FOUND=40404 REQUEST_TIMEOUT=40800 PAYLOAD_TOO_LARGE=41300
    MESSAGE_BODY_TOO_LARGE=41301 MESSAGE_BODY_EMPTY=41302 PRECONDITION_FAILED=42800 TOO_MANY_REQUESTS=42900
    LITE_TOPIC_QUOTA_EXCEEDED=42901 LITE_SUBSCRIPTION_QUOTA_EXCEEDED=42902 REQUEST_HEADER_FIELDS_TOO_LARGE=43100
    MESSAGE_PROPERTIES_TOO_LARGE=43101 INTERNAL_ERROR=50000 INTERNAL_SERVER_ERROR=50001 HA_NOT_AVAILABLE=50002
    NOT_IMPLEMENTED=50100 PROXY_TIMEOUT=50400 MASTER_PERSISTENCE_TIMEOUT=50401 SLAVE_PERSISTENCE_TIMEOUT=50402
    UNSUPPORTED=50500 VERSION_UNSUPPORTED=50501 VERIFY_FIFO_MESSAGE_UNSUPPORTED=50502
    FAILED_TO_CONSUME_MESSAGE=60000
Language: LANGUAGE_UNSPECIFIED=0 JAVA=1 CPP=2 DOT_NET=3 GOLANG=4 RUST=5 PYTHON=6 PHP=7 NODE_JS=8 RUBY=9
    OBJECTIVE_C=10 DART=11 KOTLIN=12
LiteSubscriptionAction: PARTIAL_ADD=0 PARTIAL_REMOVE=1 COMPLETE_ADD=2 COMPLETE_REMOVE=3
QueryOffsetPolicy: BEGINNING=0 END=1 TIMESTAMP=2
OffsetPolicy: LAST=0 MIN=1 MAX=2
"""

SERVICE = "apache.rocketmq.v2.MessagingService"

_RPCS = """
QueryRoute Heartbeat SendMessage QueryAssignment ReceiveMessage>stream AckMessage ForwardMessageToDeadLetterQueue
PullMessage>stream UpdateOffset GetOffset QueryOffset EndTransaction NotifyClientTermination ChangeInvisibleDuration
RecallMessage SyncLiteSubscription
"""


class Rpc(NamedTuple):
    """One method of the service: its path, the names of its messages, and which sides stream."""

    path: str
    request: str
    response: str
    streams_requests: bool = False
    streams_responses: bool = False


def _rpc(text: str) -> Rpc:
    name, _, stream = text.partition(">")
    return Rpc(f"/{SERVICE}/{name}", f"{name}Request", f"{name}Response", streams_responses=bool(stream))


RPCS: dict[str, Rpc] = {text.partition(">")[0]: _rpc(text) for text in _RPCS.split()}
RPCS["Telemetry"] = Rpc(f"/{SERVICE}/Telemetry", "TelemetryCommand", "TelemetryCommand", True, True)


class Field(NamedTuple):
    """One field of a message. `label`: empty, `optional`, `repeated`, `map`, or `oneof` with its group."""

    name: str
    number: int
    label: str
    type: str
    group: str = ""


def _entries(table: str) -> dict[str, str]:
    """Return the lines of a table by their names; indented lines belong to the one before."""
    lines = table.strip().replace("\n    ", " ").splitlines()
    return {name: rest.strip() for name, _, rest in (line.partition(":") for line in lines)}


def _number(text: str) -> int:
    number = whole_number(text)
    assert number is not None, text
    return number


def _field(text: str) -> Field:
    name, _, rest = text.partition("=")
    number, _, kind = rest.partition(":")
    words, at = kind.split(), _number(number)
    if words == ["map"]:
        return Field(name, at, "map", "string")
    if words[0] == "oneof":
        return Field(name, at, "oneof", words[2], words[1])
    return Field(name, at, words[0] if len(words) == 2 else "", words[-1])


def message_fields() -> dict[str, list[Field]]:
    """Return the fields of each message."""
    return {name: [_field(text) for text in rest.split("; ")] for name, rest in _entries(MESSAGES).items()}


def enum_values() -> dict[str, dict[str, int]]:
    """Return the values of each enum by their names."""
    found = {}
    for name, rest in _entries(ENUMS).items():
        pairs = (each.partition("=") for each in rest.split())
        found[name] = {value: _number(number) for value, _, number in pairs}
    return found
