"""Messages of the SDK as protobuf of `apache.rocketmq.v2`, and deliveries as messages. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from ipaddress import ip_address

from ...errors import PyroError
from ...model.message import KEY_SEPARATOR, Property, StoredMessage
from ...model.wire_text import whole_number
from ...protocol.compression import Compression, decompress
from ...protocol.grpc import v2
from ...transport.address import parse_address
from ..core.retry import seconds_of

_RESERVED = frozenset(value for name, value in vars(Property).items() if name.isupper() and isinstance(value, str))
_NO_HOST = b"\0" * 8
_MOST_PLAIN = 64 << 20
_MAGIC = {b"\x04\x22\x4d\x18": Compression.LZ4, b"\x28\xb5\x2f\xfd": Compression.ZSTD}


def endpoints_of(addresses: tuple[str, ...]) -> v2.Endpoints:
    """Return the addresses of servers as routes are asked with."""
    made = v2.Endpoints()
    for host, port in map(parse_address, addresses):
        made.addresses.add(host=host, port=port)
    try:
        version = ip_address(made.addresses[0].host).version
        made.scheme = v2.AddressScheme.IPv4 if version == 4 else v2.AddressScheme.IPv6
    except ValueError:
        made.scheme = v2.AddressScheme.DOMAIN_NAME
    return made


def address_of(endpoints: v2.Endpoints) -> str | None:
    """Return the first address of a server, as `host:port`."""
    for each in endpoints.addresses:
        return f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}"
    return None


def outgoing_message(topic: str, body: bytes, properties: Mapping[str, str], now_ms: int) -> v2.Message:
    """Return what is sent of a message with these properties."""
    made = v2.Message(topic=v2.Resource(name=topic), body=body)
    made.user_properties.update({name: value for name, value in properties.items() if name not in _RESERVED})
    system = made.system_properties
    system.message_id = properties.get(Property.UNIQ_KEY, "")
    system.body_encoding = v2.Encoding.IDENTITY
    system.born_timestamp.FromMilliseconds(now_ms)
    system.message_type = v2.MessageType.NORMAL
    if tag := properties.get(Property.TAGS):
        system.tag = tag
    system.keys.extend(properties.get(Property.KEYS, "").split())
    if group := properties.get(Property.SHARDING_KEY):
        system.message_group = group
        system.message_type = v2.MessageType.FIFO
    if (due_ms := _due_ms(properties, now_ms)) is not None:
        system.delivery_timestamp.FromMilliseconds(due_ms)
        system.message_type = v2.MessageType.DELAY
    if properties.get(Property.TRAN_MSG) == "true":
        system.message_type = v2.MessageType.TRANSACTION
        immunity = whole_number(properties.get(Property.CHECK_IMMUNITY_TIME_IN_SECONDS))
        if immunity is not None:
            system.orphaned_transaction_recovery_duration.FromSeconds(immunity)
    return made


def _due_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    if (at_ms := whole_number(properties.get(Property.TIMER_DELIVER_MS))) is not None:
        return at_ms
    if (delay_ms := whole_number(properties.get(Property.TIMER_DELAY_MS))) is not None:
        return now_ms + delay_ms
    if (delay_s := whole_number(properties.get(Property.TIMER_DELAY_SEC))) is not None:
        return now_ms + delay_s * 1000
    if level := whole_number(properties.get(Property.DELAY)):
        return now_ms + round(seconds_of(level) * 1000)
    return None


def received_message(message: v2.Message) -> StoredMessage:
    """Return a delivery as consumers know it. ValueError: its body cannot be unpacked."""
    system = message.system_properties
    properties = dict(message.user_properties)
    own = {
        Property.UNIQ_KEY: system.message_id,
        Property.TAGS: system.tag,
        Property.KEYS: KEY_SEPARATOR.join(system.keys),
        Property.SHARDING_KEY: system.message_group,
        Property.TRACE_CONTEXT: system.trace_context,
        Property.BORN_HOST: system.born_host,
    }
    properties |= {name: text for name, text in own.items() if text}
    return StoredMessage(
        topic=message.topic.name,
        body=_plain(message.body) if system.body_encoding == v2.Encoding.GZIP else message.body,
        properties=properties,
        queue_id=system.queue_id,
        queue_offset=system.queue_offset,
        physical_offset=-1,
        store_size=len(message.body),
        sys_flag=0,
        body_crc=0,
        born_timestamp=system.born_timestamp.ToMilliseconds(),
        born_host=_NO_HOST,
        store_timestamp=system.store_timestamp.ToMilliseconds(),
        store_host=_NO_HOST,
        reconsume_times=max(0, system.delivery_attempt - 1),
    )


def _plain(body: bytes) -> bytes:
    """Unpack a body by its first bytes: what is marked GZIP may be any of four."""
    kind = _MAGIC.get(body[:4])
    try:
        if kind is not None:
            return decompress(body, kind, _MOST_PLAIN)
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS if body[:2] == b"\x1f\x8b" else zlib.MAX_WBITS)
        plain = unpacker.decompress(body, _MOST_PLAIN)
    except (zlib.error, PyroError) as fault:
        raise ValueError(f"the body cannot be unpacked: {fault}") from None
    if unpacker.unconsumed_tail:
        raise ValueError(f"the body takes more than {_MOST_PLAIN} bytes unpacked")
    return plain
