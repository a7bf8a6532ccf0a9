"""Settings of the gRPC endpoint, with the keys and defaults of Java's proxy. The broker and the gateway have them."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import setting

PORT = 8081
BROKER_PORT = 10911  # a broker on another one has its gRPC port as far from 8081
NO_PORT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Times are milliseconds unless the name says otherwise."""

    grpc_server_port: int | None = setting(
        None,
        low=NO_PORT,
        high=65535,
        flag=True,
        help="port of 5.x clients (gRPC); 0 takes a free one, -1 opens none. Not given: 8081 for a broker on 10911, "
        "as far from it for one on another port, none for one on port 0",
    )
    grpc_proxy_protocol: bool = setting(
        True,
        help="believe a PROXY preamble on that port, as Java's proxy does: its address is the client's. Anybody can "
        "send one: false where clients connect without a load balancer and addresses matter",
    )
    use_endpoint_port_from_request: bool = setting(
        False, help="routes name the port that the client asked for, not grpcServerPort: behind a port mapping"
    )
    grpc_max_inbound_message_size: int = setting(136_314_880, low=1 << 16, help="bytes of a received gRPC message")
    max_message_bytes: int = setting(4_194_304, java="maxMessageSize", low=1, help="bytes of a message's body")
    enable_message_body_empty_check: bool = setting(True, help="a message without a body is refused")
    max_user_property_size: int = setting(16_384, low=1, help="bytes of user properties, tag and keys of a message")
    user_property_max_num: int = setting(128, low=1, help="user properties of a message")
    max_message_group_size: int = setting(64, low=2, help="a message group has fewer bytes")
    max_lite_topic_size: int = setting(64, low=1, help="characters of a lite topic's name")
    default_invisible_time_mills: int = setting(60_000, low=1_000, help="ms of messages that the endpoint renews")
    min_invisible_time_mills_for_recv: int = setting(10_000, low=0, help="ms that a receive must ask for at least")
    max_invisible_time_mills: int = setting(43_200_000, low=1, help="ms that anybody may ask for")
    max_delay_time_mills: int = setting(86_400_000, low=1, wide=True, help="ms that a gRPC client may delay a message")
    max_transaction_recovery_second: int = setting(3_600, low=1, help="s before a transaction is checked, at most")
    enable_topic_message_type_check: bool = setting(True, help="a message must be of its topic's message.type")
    grpc_client_producer_max_attempts: int = setting(3, low=1, help="tries of a send that producers are told")
    grpc_client_producer_backoff_initial_millis: int = setting(10, low=0, help="ms before the second try")
    grpc_client_producer_backoff_max_millis: int = setting(1_000, low=0, help="ms before a later try, at most")
    grpc_client_producer_backoff_multiplier: int = setting(2, low=1, help="by which the wait grows")
    grpc_client_consumer_min_long_polling_timeout_millis: int = setting(5_000, low=0, help="ms of a receive at least")
    grpc_client_consumer_max_long_polling_timeout_millis: int = setting(20_000, low=1, help="ms of a receive at most")
    grpc_client_consumer_long_polling_batch_size: int = setting(32, low=1, high=32, help="messages of a receive")
    grpc_proxy_relay_request_timeout_in_seconds: int = setting(5, low=1, help="s for a client to answer a command")
    transaction_data_expire_millis: int = setting(30_000, low=1_000, help="ms that a sent transaction is remembered")
    transaction_data_max_num: int = setting(15, low=1, help="transactions that are remembered under one id")
    invisible_time_millis_when_clear: int = setting(1_000, low=0, help="ms of messages whose client has gone")
    grpc_client_grace_mills: int = setting(
        5_000,
        low=0,
        help="ms that a client may take to open another telemetry stream; then what it holds is given back",
    )
    enable_proxy_auto_renew: bool = setting(True, help="messages of push consumers are renewed while they run")
    max_renew_retry_times: int = setting(3, low=1, help="failed tries of one renewal")
    renew_ahead_time_millis: int = setting(10_000, low=1, help="ms before its end that a time is renewed")
    renew_max_time_millis: int = setting(10_800_000, low=1, help="ms after the receive that renewals end")
    metric_collector_mode: str = setting("off", help="off, on or proxy: whether clients are told to send metrics")
    metric_collector_address: str = setting("", help="host:port that clients send metrics to, in mode on")

    def checked_metric_mode(self) -> str:
        """Return the mode. ValueError names the ones there are."""
        if self.metric_collector_mode not in ("off", "on", "proxy"):
            raise ValueError(f"metricCollectorMode = {self.metric_collector_mode}: it is off, on or proxy")
        return self.metric_collector_mode

    def why_no_white_lists(self) -> str:
        """Return why no address may be let in where this port is open; empty: addresses are what they seem."""
        if not self.grpc_proxy_protocol:
            return ""
        return (
            "with grpcProxyProtocol = true, its default, anybody can begin a connection to the gRPC port with a PROXY "
            "preamble that names an address which is let in; set grpcProxyProtocol = false or, behind a load balancer, "
            "let no addresses in"
        )

    def port_beside(self, broker_port: int) -> int:
        """Return the port to open beside a broker's own; NO_PORT for none."""
        if self.grpc_server_port is not None:
            return self.grpc_server_port
        if broker_port == 0:
            return NO_PORT
        beside = broker_port - BROKER_PORT + PORT
        return beside if 1 <= beside <= 65535 else NO_PORT
