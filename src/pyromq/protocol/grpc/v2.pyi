# Made by scripts/grpc_types.py from the table in schema.py.
from collections.abc import Iterable, Mapping, MutableMapping
from enum import IntEnum

from google.protobuf.duration_pb2 import Duration as Duration
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer, RepeatedScalarFieldContainer
from google.protobuf.message import Message as _Message
from google.protobuf.timestamp_pb2 import Timestamp as Timestamp

class TransactionResolution(IntEnum):
    TRANSACTION_RESOLUTION_UNSPECIFIED = 0
    COMMIT = 1
    ROLLBACK = 2

class TransactionSource(IntEnum):
    SOURCE_UNSPECIFIED = 0
    SOURCE_CLIENT = 1
    SOURCE_SERVER_CHECK = 2

class Permission(IntEnum):
    PERMISSION_UNSPECIFIED = 0
    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4

class FilterType(IntEnum):
    FILTER_TYPE_UNSPECIFIED = 0
    TAG = 1
    SQL = 2

class AddressScheme(IntEnum):
    ADDRESS_SCHEME_UNSPECIFIED = 0
    IPv4 = 1
    IPv6 = 2
    DOMAIN_NAME = 3

class MessageType(IntEnum):
    MESSAGE_TYPE_UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6

class DigestType(IntEnum):
    DIGEST_TYPE_UNSPECIFIED = 0
    CRC32 = 1
    MD5 = 2
    SHA1 = 3

class ClientType(IntEnum):
    CLIENT_TYPE_UNSPECIFIED = 0
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6

class Encoding(IntEnum):
    ENCODING_UNSPECIFIED = 0
    IDENTITY = 1
    GZIP = 2

class Code(IntEnum):
    CODE_UNSPECIFIED = 0
    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_ACCESS_POINT = 40001
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    ILLEGAL_OFFSET = 40019
    ILLEGAL_LITE_TOPIC = 40020
    INVALID_CLIENT_PROPERTIES = 40021
    UNAUTHORIZED = 40100
    PAYMENT_REQUIRED = 40200
    FORBIDDEN = 40300
    NOT_FOUND = 40400
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    REQUEST_TIMEOUT = 40800
    PAYLOAD_TOO_LARGE = 41300
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    PRECONDITION_FAILED = 42800
    TOO_MANY_REQUESTS = 42900
    LITE_TOPIC_QUOTA_EXCEEDED = 42901
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 42902
    REQUEST_HEADER_FIELDS_TOO_LARGE = 43100
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_ERROR = 50000
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402
    UNSUPPORTED = 50500
    VERSION_UNSUPPORTED = 50501
    VERIFY_FIFO_MESSAGE_UNSUPPORTED = 50502
    FAILED_TO_CONSUME_MESSAGE = 60000

class Language(IntEnum):
    LANGUAGE_UNSPECIFIED = 0
    JAVA = 1
    CPP = 2
    DOT_NET = 3
    GOLANG = 4
    RUST = 5
    PYTHON = 6
    PHP = 7
    NODE_JS = 8
    RUBY = 9
    OBJECTIVE_C = 10
    DART = 11
    KOTLIN = 12

class LiteSubscriptionAction(IntEnum):
    PARTIAL_ADD = 0
    PARTIAL_REMOVE = 1
    COMPLETE_ADD = 2
    COMPLETE_REMOVE = 3

class QueryOffsetPolicy(IntEnum):
    BEGINNING = 0
    END = 1
    TIMESTAMP = 2

class OffsetPolicy(IntEnum):
    LAST = 0
    MIN = 1
    MAX = 2

class FilterExpression(_Message):
    type: int
    expression: str
    def __init__(
        self,
        *,
        type: int | None = ...,
        expression: str | None = ...,
    ) -> None: ...

class RetryPolicy(_Message):
    max_attempts: int
    @property
    def exponential_backoff(self) -> ExponentialBackoff: ...
    @property
    def customized_backoff(self) -> CustomizedBackoff: ...
    def __init__(
        self,
        *,
        max_attempts: int | None = ...,
        exponential_backoff: ExponentialBackoff | None = ...,
        customized_backoff: CustomizedBackoff | None = ...,
    ) -> None: ...

class ExponentialBackoff(_Message):
    @property
    def initial(self) -> Duration: ...
    @property
    def max(self) -> Duration: ...
    multiplier: float
    def __init__(
        self,
        *,
        initial: Duration | None = ...,
        max: Duration | None = ...,
        multiplier: float | None = ...,
    ) -> None: ...

class CustomizedBackoff(_Message):
    @property
    def next(self) -> RepeatedCompositeFieldContainer[Duration]: ...
    def __init__(
        self,
        *,
        next: Iterable[Duration] | None = ...,
    ) -> None: ...

class Resource(_Message):
    resource_namespace: str
    name: str
    def __init__(
        self,
        *,
        resource_namespace: str | None = ...,
        name: str | None = ...,
    ) -> None: ...

class SubscriptionEntry(_Message):
    @property
    def topic(self) -> Resource: ...
    @property
    def expression(self) -> FilterExpression: ...
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        expression: FilterExpression | None = ...,
    ) -> None: ...

class Address(_Message):
    host: str
    port: int
    def __init__(
        self,
        *,
        host: str | None = ...,
        port: int | None = ...,
    ) -> None: ...

class Endpoints(_Message):
    scheme: int
    @property
    def addresses(self) -> RepeatedCompositeFieldContainer[Address]: ...
    def __init__(
        self,
        *,
        scheme: int | None = ...,
        addresses: Iterable[Address] | None = ...,
    ) -> None: ...

class Broker(_Message):
    name: str
    id: int
    @property
    def endpoints(self) -> Endpoints: ...
    def __init__(
        self,
        *,
        name: str | None = ...,
        id: int | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...

class MessageQueue(_Message):
    @property
    def topic(self) -> Resource: ...
    id: int
    permission: int
    @property
    def broker(self) -> Broker: ...
    @property
    def accept_message_types(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        id: int | None = ...,
        permission: int | None = ...,
        broker: Broker | None = ...,
        accept_message_types: Iterable[int] | None = ...,
    ) -> None: ...

class Digest(_Message):
    type: int
    checksum: str
    def __init__(
        self,
        *,
        type: int | None = ...,
        checksum: str | None = ...,
    ) -> None: ...

class SystemProperties(_Message):
    tag: str
    @property
    def keys(self) -> RepeatedScalarFieldContainer[str]: ...
    message_id: str
    @property
    def body_digest(self) -> Digest: ...
    body_encoding: int
    message_type: int
    @property
    def born_timestamp(self) -> Timestamp: ...
    born_host: str
    @property
    def store_timestamp(self) -> Timestamp: ...
    store_host: str
    @property
    def delivery_timestamp(self) -> Timestamp: ...
    receipt_handle: str
    queue_id: int
    queue_offset: int
    @property
    def invisible_duration(self) -> Duration: ...
    delivery_attempt: int
    message_group: str
    trace_context: str
    @property
    def orphaned_transaction_recovery_duration(self) -> Duration: ...
    @property
    def dead_letter_queue(self) -> DeadLetterQueue: ...
    lite_topic: str
    priority: int
    def __init__(
        self,
        *,
        tag: str | None = ...,
        keys: Iterable[str] | None = ...,
        message_id: str | None = ...,
        body_digest: Digest | None = ...,
        body_encoding: int | None = ...,
        message_type: int | None = ...,
        born_timestamp: Timestamp | None = ...,
        born_host: str | None = ...,
        store_timestamp: Timestamp | None = ...,
        store_host: str | None = ...,
        delivery_timestamp: Timestamp | None = ...,
        receipt_handle: str | None = ...,
        queue_id: int | None = ...,
        queue_offset: int | None = ...,
        invisible_duration: Duration | None = ...,
        delivery_attempt: int | None = ...,
        message_group: str | None = ...,
        trace_context: str | None = ...,
        orphaned_transaction_recovery_duration: Duration | None = ...,
        dead_letter_queue: DeadLetterQueue | None = ...,
        lite_topic: str | None = ...,
        priority: int | None = ...,
    ) -> None: ...

class DeadLetterQueue(_Message):
    topic: str
    message_id: str
    def __init__(
        self,
        *,
        topic: str | None = ...,
        message_id: str | None = ...,
    ) -> None: ...

class Message(_Message):
    @property
    def topic(self) -> Resource: ...
    @property
    def user_properties(self) -> MutableMapping[str, str]: ...
    @property
    def system_properties(self) -> SystemProperties: ...
    body: bytes
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        user_properties: Mapping[str, str] | None = ...,
        system_properties: SystemProperties | None = ...,
        body: bytes | None = ...,
    ) -> None: ...

class Assignment(_Message):
    @property
    def message_queue(self) -> MessageQueue: ...
    def __init__(
        self,
        *,
        message_queue: MessageQueue | None = ...,
    ) -> None: ...

class Status(_Message):
    code: int
    message: str
    def __init__(
        self,
        *,
        code: int | None = ...,
        message: str | None = ...,
    ) -> None: ...

class UA(_Message):
    language: int
    version: str
    platform: str
    hostname: str
    def __init__(
        self,
        *,
        language: int | None = ...,
        version: str | None = ...,
        platform: str | None = ...,
        hostname: str | None = ...,
    ) -> None: ...

class Settings(_Message):
    client_type: int
    @property
    def access_point(self) -> Endpoints: ...
    @property
    def backoff_policy(self) -> RetryPolicy: ...
    @property
    def request_timeout(self) -> Duration: ...
    @property
    def publishing(self) -> Publishing: ...
    @property
    def subscription(self) -> Subscription: ...
    @property
    def user_agent(self) -> UA: ...
    @property
    def metric(self) -> Metric: ...
    @property
    def client_properties(self) -> MutableMapping[str, str]: ...
    def __init__(
        self,
        *,
        client_type: int | None = ...,
        access_point: Endpoints | None = ...,
        backoff_policy: RetryPolicy | None = ...,
        request_timeout: Duration | None = ...,
        publishing: Publishing | None = ...,
        subscription: Subscription | None = ...,
        user_agent: UA | None = ...,
        metric: Metric | None = ...,
        client_properties: Mapping[str, str] | None = ...,
    ) -> None: ...

class Publishing(_Message):
    @property
    def topics(self) -> RepeatedCompositeFieldContainer[Resource]: ...
    max_body_size: int
    validate_message_type: bool
    def __init__(
        self,
        *,
        topics: Iterable[Resource] | None = ...,
        max_body_size: int | None = ...,
        validate_message_type: bool | None = ...,
    ) -> None: ...

class Subscription(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def subscriptions(self) -> RepeatedCompositeFieldContainer[SubscriptionEntry]: ...
    fifo: bool
    receive_batch_size: int
    @property
    def long_polling_timeout(self) -> Duration: ...
    lite_subscription_quota: int
    max_lite_topic_size: int
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        subscriptions: Iterable[SubscriptionEntry] | None = ...,
        fifo: bool | None = ...,
        receive_batch_size: int | None = ...,
        long_polling_timeout: Duration | None = ...,
        lite_subscription_quota: int | None = ...,
        max_lite_topic_size: int | None = ...,
    ) -> None: ...

class Metric(_Message):
    on: bool
    @property
    def endpoints(self) -> Endpoints: ...
    def __init__(
        self,
        *,
        on: bool | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...

class OffsetOption(_Message):
    policy: int
    offset: int
    tail_n: int
    timestamp: int
    def __init__(
        self,
        *,
        policy: int | None = ...,
        offset: int | None = ...,
        tail_n: int | None = ...,
        timestamp: int | None = ...,
    ) -> None: ...

class QueryRouteRequest(_Message):
    @property
    def topic(self) -> Resource: ...
    @property
    def endpoints(self) -> Endpoints: ...
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...

class QueryRouteResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def message_queues(self) -> RepeatedCompositeFieldContainer[MessageQueue]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_queues: Iterable[MessageQueue] | None = ...,
    ) -> None: ...

class SendMessageRequest(_Message):
    @property
    def messages(self) -> RepeatedCompositeFieldContainer[Message]: ...
    def __init__(
        self,
        *,
        messages: Iterable[Message] | None = ...,
    ) -> None: ...

class SendResultEntry(_Message):
    @property
    def status(self) -> Status: ...
    message_id: str
    transaction_id: str
    offset: int
    recall_handle: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_id: str | None = ...,
        transaction_id: str | None = ...,
        offset: int | None = ...,
        recall_handle: str | None = ...,
    ) -> None: ...

class SendMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[SendResultEntry]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        entries: Iterable[SendResultEntry] | None = ...,
    ) -> None: ...

class QueryAssignmentRequest(_Message):
    @property
    def topic(self) -> Resource: ...
    @property
    def group(self) -> Resource: ...
    @property
    def endpoints(self) -> Endpoints: ...
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        group: Resource | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...

class QueryAssignmentResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def assignments(self) -> RepeatedCompositeFieldContainer[Assignment]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        assignments: Iterable[Assignment] | None = ...,
    ) -> None: ...

class ReceiveMessageRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def message_queue(self) -> MessageQueue: ...
    @property
    def filter_expression(self) -> FilterExpression: ...
    batch_size: int
    @property
    def invisible_duration(self) -> Duration: ...
    auto_renew: bool
    @property
    def long_polling_timeout(self) -> Duration: ...
    attempt_id: str
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        filter_expression: FilterExpression | None = ...,
        batch_size: int | None = ...,
        invisible_duration: Duration | None = ...,
        auto_renew: bool | None = ...,
        long_polling_timeout: Duration | None = ...,
        attempt_id: str | None = ...,
    ) -> None: ...

class ReceiveMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def message(self) -> Message: ...
    @property
    def delivery_timestamp(self) -> Timestamp: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message: Message | None = ...,
        delivery_timestamp: Timestamp | None = ...,
    ) -> None: ...

class AckMessageEntry(_Message):
    message_id: str
    receipt_handle: str
    lite_topic: str
    def __init__(
        self,
        *,
        message_id: str | None = ...,
        receipt_handle: str | None = ...,
        lite_topic: str | None = ...,
    ) -> None: ...

class AckMessageRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[AckMessageEntry]: ...
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        entries: Iterable[AckMessageEntry] | None = ...,
    ) -> None: ...

class AckMessageResultEntry(_Message):
    message_id: str
    receipt_handle: str
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        message_id: str | None = ...,
        receipt_handle: str | None = ...,
        status: Status | None = ...,
    ) -> None: ...

class AckMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[AckMessageResultEntry]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        entries: Iterable[AckMessageResultEntry] | None = ...,
    ) -> None: ...

class ForwardMessageToDeadLetterQueueRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    receipt_handle: str
    message_id: str
    delivery_attempt: int
    max_delivery_attempts: int
    lite_topic: str
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        receipt_handle: str | None = ...,
        message_id: str | None = ...,
        delivery_attempt: int | None = ...,
        max_delivery_attempts: int | None = ...,
        lite_topic: str | None = ...,
    ) -> None: ...

class ForwardMessageToDeadLetterQueueResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...

class HeartbeatRequest(_Message):
    @property
    def group(self) -> Resource: ...
    client_type: int
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        client_type: int | None = ...,
    ) -> None: ...

class HeartbeatResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...

class EndTransactionRequest(_Message):
    @property
    def topic(self) -> Resource: ...
    message_id: str
    transaction_id: str
    resolution: int
    source: int
    trace_context: str
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        message_id: str | None = ...,
        transaction_id: str | None = ...,
        resolution: int | None = ...,
        source: int | None = ...,
        trace_context: str | None = ...,
    ) -> None: ...

class EndTransactionResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...

class PrintThreadStackTraceCommand(_Message):
    nonce: str
    def __init__(
        self,
        *,
        nonce: str | None = ...,
    ) -> None: ...

class ReconnectEndpointsCommand(_Message):
    nonce: str
    def __init__(
        self,
        *,
        nonce: str | None = ...,
    ) -> None: ...

class ThreadStackTrace(_Message):
    nonce: str
    thread_stack_trace: str
    def __init__(
        self,
        *,
        nonce: str | None = ...,
        thread_stack_trace: str | None = ...,
    ) -> None: ...

class VerifyMessageCommand(_Message):
    nonce: str
    @property
    def message(self) -> Message: ...
    def __init__(
        self,
        *,
        nonce: str | None = ...,
        message: Message | None = ...,
    ) -> None: ...

class VerifyMessageResult(_Message):
    nonce: str
    def __init__(
        self,
        *,
        nonce: str | None = ...,
    ) -> None: ...

class RecoverOrphanedTransactionCommand(_Message):
    @property
    def message(self) -> Message: ...
    transaction_id: str
    def __init__(
        self,
        *,
        message: Message | None = ...,
        transaction_id: str | None = ...,
    ) -> None: ...

class NotifyUnsubscribeLiteCommand(_Message):
    lite_topic: str
    def __init__(
        self,
        *,
        lite_topic: str | None = ...,
    ) -> None: ...

class TelemetryCommand(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def thread_stack_trace(self) -> ThreadStackTrace: ...
    @property
    def verify_message_result(self) -> VerifyMessageResult: ...
    @property
    def recover_orphaned_transaction_command(self) -> RecoverOrphanedTransactionCommand: ...
    @property
    def print_thread_stack_trace_command(self) -> PrintThreadStackTraceCommand: ...
    @property
    def verify_message_command(self) -> VerifyMessageCommand: ...
    @property
    def reconnect_endpoints_command(self) -> ReconnectEndpointsCommand: ...
    @property
    def notify_unsubscribe_lite_command(self) -> NotifyUnsubscribeLiteCommand: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        settings: Settings | None = ...,
        thread_stack_trace: ThreadStackTrace | None = ...,
        verify_message_result: VerifyMessageResult | None = ...,
        recover_orphaned_transaction_command: RecoverOrphanedTransactionCommand | None = ...,
        print_thread_stack_trace_command: PrintThreadStackTraceCommand | None = ...,
        verify_message_command: VerifyMessageCommand | None = ...,
        reconnect_endpoints_command: ReconnectEndpointsCommand | None = ...,
        notify_unsubscribe_lite_command: NotifyUnsubscribeLiteCommand | None = ...,
    ) -> None: ...

class NotifyClientTerminationRequest(_Message):
    @property
    def group(self) -> Resource: ...
    def __init__(
        self,
        *,
        group: Resource | None = ...,
    ) -> None: ...

class NotifyClientTerminationResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...

class ChangeInvisibleDurationRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    receipt_handle: str
    @property
    def invisible_duration(self) -> Duration: ...
    message_id: str
    lite_topic: str
    suspend: bool
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        receipt_handle: str | None = ...,
        invisible_duration: Duration | None = ...,
        message_id: str | None = ...,
        lite_topic: str | None = ...,
        suspend: bool | None = ...,
    ) -> None: ...

class ChangeInvisibleDurationResponse(_Message):
    @property
    def status(self) -> Status: ...
    receipt_handle: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        receipt_handle: str | None = ...,
    ) -> None: ...

class PullMessageRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def message_queue(self) -> MessageQueue: ...
    offset: int
    batch_size: int
    @property
    def filter_expression(self) -> FilterExpression: ...
    @property
    def long_polling_timeout(self) -> Duration: ...
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        offset: int | None = ...,
        batch_size: int | None = ...,
        filter_expression: FilterExpression | None = ...,
        long_polling_timeout: Duration | None = ...,
    ) -> None: ...

class PullMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def message(self) -> Message: ...
    next_offset: int
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message: Message | None = ...,
        next_offset: int | None = ...,
    ) -> None: ...

class UpdateOffsetRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def message_queue(self) -> MessageQueue: ...
    offset: int
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        offset: int | None = ...,
    ) -> None: ...

class UpdateOffsetResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...

class GetOffsetRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def message_queue(self) -> MessageQueue: ...
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
    ) -> None: ...

class GetOffsetResponse(_Message):
    @property
    def status(self) -> Status: ...
    offset: int
    def __init__(
        self,
        *,
        status: Status | None = ...,
        offset: int | None = ...,
    ) -> None: ...

class QueryOffsetRequest(_Message):
    @property
    def message_queue(self) -> MessageQueue: ...
    query_offset_policy: int
    @property
    def timestamp(self) -> Timestamp: ...
    def __init__(
        self,
        *,
        message_queue: MessageQueue | None = ...,
        query_offset_policy: int | None = ...,
        timestamp: Timestamp | None = ...,
    ) -> None: ...

class QueryOffsetResponse(_Message):
    @property
    def status(self) -> Status: ...
    offset: int
    def __init__(
        self,
        *,
        status: Status | None = ...,
        offset: int | None = ...,
    ) -> None: ...

class RecallMessageRequest(_Message):
    @property
    def topic(self) -> Resource: ...
    recall_handle: str
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        recall_handle: str | None = ...,
    ) -> None: ...

class RecallMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    message_id: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_id: str | None = ...,
    ) -> None: ...

class SyncLiteSubscriptionRequest(_Message):
    action: int
    @property
    def topic(self) -> Resource: ...
    @property
    def group(self) -> Resource: ...
    @property
    def lite_topic_set(self) -> RepeatedScalarFieldContainer[str]: ...
    version: int
    @property
    def offset_option(self) -> OffsetOption: ...
    def __init__(
        self,
        *,
        action: int | None = ...,
        topic: Resource | None = ...,
        group: Resource | None = ...,
        lite_topic_set: Iterable[str] | None = ...,
        version: int | None = ...,
        offset_option: OffsetOption | None = ...,
    ) -> None: ...

class SyncLiteSubscriptionResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
