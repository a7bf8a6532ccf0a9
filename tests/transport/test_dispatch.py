"""Request code to handler, authorisation, exceptions to response codes."""

from __future__ import annotations

import pytest

from pyromq.errors import ProtocolError, RequestRefused
from pyromq.model.codes import ResponseCode
from pyromq.protocol.bodies.topics import TopicList
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.headers.header import Header, Int32, TopicQueue
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Dispatcher, Reply, Request, await_answer
from pyromq.transport.peer import Peer


class Offset(Header):
    queue_id: Int32
    offset: int | None = None


class Nobody:
    address = "nobody:1"


def request(code: int, **fields: str) -> Request:
    peer: Peer = Nobody()  # type: ignore[assignment]
    return Request(Command(code=code, opaque=4, fields=fields, encoding=Encoding.ROCKETMQ), peer)


def test_a_handler_that_answers_at_once_needs_no_await() -> None:
    reply = Reply(remark="yes")
    assert Dispatcher({1: lambda _: reply})(request(1)) is reply


async def test_a_handler_may_answer_later_or_not_at_all() -> None:
    async def later(_: Request) -> Reply:
        return Reply(remark="later")

    dispatch = Dispatcher({1: later, 2: lambda _: None})
    reply = await await_answer(dispatch(request(1)))
    assert reply is not None
    assert reply.remark == "later"
    assert dispatch(request(2)) is None


def test_authorisation_comes_before_the_handler() -> None:
    served: list[int] = []

    def only_one(asked: Request) -> None:
        if asked.command.code != 1:
            raise RequestRefused("not allowed", ResponseCode.NO_PERMISSION)

    def handler(asked: Request) -> Reply:
        served.append(asked.command.code)
        return Reply()

    dispatch = Dispatcher({1: handler, 2: handler}, authorise=only_one)
    refused = dispatch(request(2))
    dispatch(request(1))
    assert isinstance(refused, Reply)
    assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "not allowed")
    assert served == [1]


def test_a_protocol_error_goes_through() -> None:
    def fail(_: Request) -> Reply:
        raise ProtocolError("bad body")

    with pytest.raises(ProtocolError):
        Dispatcher({1: fail})(request(1))


def test_unknown_codes_get_javas_words_and_a_hint_for_codes_that_were_cut_off() -> None:
    dispatch = Dispatcher({})
    plain, cut = dispatch(request(77)), dispatch(request(RequestCode.POP_MESSAGE & 0xFFFF))
    assert isinstance(plain, Reply)
    assert isinstance(cut, Reply)
    assert (plain.code, plain.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 77 not supported")
    assert cut.remark == (
        " request type 3442 not supported; if 200050 (POP_MESSAGE) was meant, "
        "it needs the JSON header (binary has 16 bits)"
    )


def test_a_reply_takes_opaque_and_encoding_of_the_request() -> None:
    asked = request(1)
    answer = Reply(header=Offset(queue_id=3, offset=9), fields={"more": "x"}, body=b"b").to_command(asked.command)
    assert answer.is_response
    assert (answer.opaque, answer.encoding, answer.body) == (4, Encoding.ROCKETMQ, b"b")
    assert answer.fields == {"queueId": "3", "offset": "9", "more": "x"}


def test_a_header_that_does_not_fit_names_the_field() -> None:
    code = RequestCode.GET_MIN_OFFSET
    assert request(code, topic="T", queueId="3").header == TopicQueue(topic="T", queue_id=3)
    with pytest.raises(RequestRefused, match="queueId"):
        _ = request(code, topic="T").header


def test_bodies_are_read_and_written_by_the_row() -> None:
    asked = request(RequestCode.UNLOCK_BATCH_MQ)
    asked.command.body = b'{"consumerGroup":"G","clientId":"c"}'
    assert asked.body.consumer_group == "G"
    asked.command.body = b"{"
    with pytest.raises(RequestRefused, match="LockBatchRequestBody"):
        _ = asked.body
    answer = Reply(body=TopicList(topic_list=["T"])).to_command(Command(code=RequestCode.GET_UNIT_TOPIC_LIST))
    assert answer.body == b'{"topicList":["T"]}'
