"""A master that returns has the offsets that clients committed to its slaves meanwhile, before clients come to it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pyromq.broker.replication import members as members_of_the_name
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.transport.dispatch import Reply
from tests.broker.replication.fake_broker import a_broker_that
from tests.broker.running import Running, running_broker, turns_until

REGISTERED = {"QUERY_DATA_VERSION": Reply(fields={"changed": "false"}), "REGISTER_BROKER": Reply()}
JAVAS = Reply(body=b'{"offsetTable":{"T@G":{0:2,1:1,2:77,9:5},"Gone@G":{0:4}}}')
OURS = Reply(body=b'{"offsets":{"T@G":{"0":2,"1":1,"2":77,"9":5},"Gone@G":{"0":4}}}')


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start asks once, and nobody again whose answer was late: a busy machine makes it wait here."""
    monkeypatch.setattr(members_of_the_name, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(members_of_the_name, "ANOTHER_S", 60.0)


def members(**addresses: str) -> Reply:
    """The answer to 901: `slave1="127.0.0.1:1"` has id 1."""
    table = {int(name[-1]): address for name, address in addresses.items()}
    group = {"brokerAddrs": table, "brokerName": "broker-a", "cluster": "DefaultCluster"}
    return Reply(body=msgspec.json.encode({"brokerMemberGroup": group}))


async def filled(folder: Path) -> None:
    """A life of the master: three messages in each of three queues, one of each consumed."""
    async with running_broker(folder) as master:
        master.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=3))
        for queue in range(3):
            for _ in range(3):
                assert (await master.send("T", queue=queue)).code == 0
            master.broker.offsets.commit("T", "G", queue, 1)


def committed(master: Running) -> dict[int, int]:
    return dict(master.broker.offsets.queues("T", "G"))


@pytest.mark.parametrize("answers", [{"OWN_COMMITS": OURS}, {"GET_ALL_CONSUMER_OFFSET": JAVAS}], ids=["ours", "Java's"])
async def test_the_larger_offset_counts_and_none_beyond_the_queue(tmp_path: Path, answers: dict[str, Reply]) -> None:
    await filled(tmp_path)
    async with (
        a_broker_that(**answers) as slave,
        a_broker_that(GET_BROKER_MEMBER_GROUP=members(slave1=slave), **REGISTERED) as name_server,
        running_broker(tmp_path, namesrv_addr=(name_server,)) as master,
    ):
        await master.broker.naming.registration.registered(20)
        assert committed(master) == {0: 2, 1: 1, 2: 3}
        assert master.broker.offsets.find("Gone", "G", 0) is None


async def test_a_slave_that_does_not_answer_keeps_nobody_from_registering(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with a_broker_that() as gone:
        pass
    async with (
        a_broker_that(OWN_COMMITS=OURS) as slave,
        a_broker_that(GET_BROKER_MEMBER_GROUP=members(slave1=gone, slave2=slave), **REGISTERED) as name_server,
        running_broker(tmp_path, namesrv_addr=(gone, name_server)) as master,
    ):
        registration = master.broker.naming.registration
        await turns_until(lambda: registration.state()[name_server] == "registered")
        assert committed(master) == {0: 2, 1: 1, 2: 3}
        assert "G" in master.broker.groups  # which no member of it has told this master of


async def test_it_is_asked_once(tmp_path: Path) -> None:
    await filled(tmp_path)
    async with (
        a_broker_that(OWN_COMMITS=OURS) as slave,
        a_broker_that(GET_BROKER_MEMBER_GROUP=members(slave1=slave), **REGISTERED) as name_server,
        running_broker(tmp_path, namesrv_addr=(name_server,)) as master,
    ):
        await master.broker.naming.registration.registered(20)
        master.broker.offsets.reset("T", "G", 0, 0)
        master.broker.naming.registration.announce()
        await master.broker.naming.registration.registered(20)
        assert committed(master)[0] == 0


async def test_another_master_of_the_name_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with (
        a_broker_that(GET_BROKER_RUNTIME_INFO=Reply(body=b'{"table":{}}')) as other,
        a_broker_that(GET_BROKER_MEMBER_GROUP=members(master0=other), **REGISTERED) as name_server,
        running_broker(tmp_path, namesrv_addr=(name_server,)) as master,
    ):
        await master.broker.naming.registration.registered(20)
        wanted = "another master has this broker's name"
        await turns_until(lambda: any(wanted in (line := one.getMessage()) and other in line for one in caplog.records))


async def test_a_master_that_is_gone_is_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with a_broker_that() as gone:
        pass
    async with (
        a_broker_that(GET_BROKER_MEMBER_GROUP=members(master0=gone), **REGISTERED) as name_server,
        running_broker(tmp_path, namesrv_addr=(name_server,)) as master,
    ):
        await master.broker.naming.registration.registered(20)
        assert not any("another master" in record.getMessage() for record in caplog.records)
