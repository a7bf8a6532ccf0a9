"""Values as Java prints them."""

from __future__ import annotations

import pytest

from pyromq.model.client_info import version_name
from pyromq.mqadmin import printing
from pyromq.mqadmin.messages import text
from pyromq.mqadmin.topics.topics import attribute_map, topic_text
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from pyromq.protocol.bodies.route import BrokerData, TopicRouteData
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply

from .conftest import Shown, call
from .stand_in import StandIn, standing_in


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (213, "V4_0_0"),
        (401, "V4_9_4"),
        (413, "V5_0_0"),
        (475, "V5_3_1"),
        (513, "V5_5_0"),
        (512, "V5_5_0_SNAPSHOT"),
        (121, "V3(121)"),
    ],
)
def test_names_of_versions(number: int, name: str) -> None:
    assert version_name(number) == name


def test_times_past_the_calendar_are_in_words() -> None:
    for ms in (361_784_000_000_000, (1 << 63) - 1):
        assert printing.when(ms) == printing.when_s(ms) == "after 9999"
    assert printing.when(-(1 << 63)) == "before the year 1"
    assert printing.when(1_794_800_000_007).endswith(",007")


def test_values() -> None:
    assert printing.java({"a": True, "b": None, "c": ["x", 1]}) == "{a=true, b=null, c=[x, 1]}"


def test_json_with_tabs_and_bare_numbers_as_keys() -> None:
    route = TopicRouteData(broker_datas=[BrokerData(broker_name="a", broker_addrs={0: "x:1"})])
    assert printing.pretty(route) == (
        '{\n\t"brokerDatas":[\n\t\t{\n\t\t\t"brokerAddrs":{\n\t\t\t\t0:"x:1"\n\t\t\t},\n\t\t\t"brokerName":"a",\n'
        '\t\t\t"enableActingMaster":false\n\t\t}\n\t],\n\t"filterServerTable":{},\n\t"queueDatas":[]\n}'
    )


def test_properties_in_the_order_of_java_s_map() -> None:
    names = ["UNIQ_KEY", "MIN_OFFSET", "TAGS", "KEYS", "WAIT", "a", "b", "TRACE_ON", "MAX_OFFSET", "CLUSTER"]
    assert text.property_text(dict.fromkeys([*names, "MSG_REGION"], "")) == (
        "{MSG_REGION=, UNIQ_KEY=, CLUSTER=, MIN_OFFSET=, TAGS=, KEYS=, WAIT=, a=, b=, TRACE_ON=, MAX_OFFSET=}"
    )


@pytest.mark.parametrize(("perm", "text"), [(6, "RW-"), (4, "R--"), (2, "-W-"), (7, "RWX")])
def test_permissions_in_letters(perm: int, text: str) -> None:
    assert f"perm={text}," in topic_text(TopicConfig(topic_name="T", perm=perm))


def test_attributes_keep_their_signs() -> None:
    assert attribute_map("+a=b, -c") == {"+a": "b", "-c": ""}


def test_a_slave_tells_of_its_master() -> None:
    def status(info: HARuntimeInfo) -> Shown:
        with standing_in(StandIn({RequestCode.GET_BROKER_HA_STATUS: Reply(body=encode_body(info))})) as server:
            return call("haStatus", "-n", server.address, "-b", server.address)

    of = HAClientRuntimeInfo(master_addr="x:1", max_offset=5, transferred_byte_in_second=2048, master_flush_offset=4)
    lines = status(HARuntimeInfo(master=False, ha_client_runtime_info=of)).out.splitlines()
    assert lines[:4] == ["", "#MasterAddr\tx:1", "#CommitLogMaxOffset\t5", "#TransferSpeed(KB/s)\t2.00"]
    assert lines[-1] == "#MasterFlushOffset\t4"
    slave = HAConnectionRuntimeInfo(addr="x:2", slave_ack_offset=3, diff=2, in_sync=True, transfer_from_where=1)
    shown = status(HARuntimeInfo(master=True, ha_connection_info=[slave], in_sync_slave_nums=1))
    assert shown.out.splitlines()[-1].split() == ["x:2", "3", "2", "0.00", "OK", "1"]
