"""All commands in the order of Java's list, and the file of each. Files are imported when needed."""

from __future__ import annotations

from importlib import import_module

from .command import Named, Subcommand

# A command's function has its name, with underscores.
_FILES = (
    ("topics.topics", "updateTopic updateTopicList deleteTopic"),
    ("groups.groups", "updateSubGroup updateSubGroupList setConsumeMode deleteSubGroup"),
    ("brokers.brokers", "updateBrokerConfig"),
    ("topics.topics", "updateTopicPerm"),
    ("topics.show", "topicRoute topicStatus topicClusterList"),
    ("brokers.controllers", "addBroker removeBroker"),
    ("brokers.brokers", "resetMasterFlushOffset brokerStatus"),
    ("messages.find", "queryMsgById queryMsgByKey queryMsgByUniqueKey queryMsgByOffset queryMsgTraceById"),
    ("messages.browse", "printMsg printMsgByQueue"),
    ("messages.send", "sendMsgStatus"),
    ("groups.progress", "brokerConsumeStats"),
    ("groups.connections", "producerConnection consumerConnection"),
    ("groups.progress", "consumerProgress"),
    ("groups.connections", "consumerStatus"),
    ("groups.offsets", "cloneGroupOffset"),
    ("groups.connections", "producer"),
    ("brokers.clusters", "clusterList"),
    ("topics.show", "topicList"),
    ("brokers.clusters", "updateKvConfig deleteKvConfig wipeWritePerm addWritePerm"),
    ("groups.offsets", "resetOffsetByTime skipAccumulatedMessage"),
    ("topics.topics", "updateOrderConf"),
    ("brokers.brokers", "cleanExpiredCQ deleteExpiredCommitLog cleanUnusedTopic"),
    ("groups.connections", "startMonitoring"),
    ("groups.progress", "statsAll"),
    ("topics.show", "allocateMQ"),
    ("messages.send", "checkMsgSendRT"),
    ("brokers.clusters", "clusterRT getNamesrvConfig updateNamesrvConfig"),
    ("brokers.brokers", "getBrokerConfig"),
    ("groups.groups", "getConsumerConfig"),
    ("topics.show", "queryCq"),
    ("messages.send", "sendMessage"),
    ("messages.browse", "consumeMessage"),
    ("topics.static_topics", "updateStaticTopic remappingStaticTopic"),
    ("brokers.export", "exportMetadata exportConfigs exportMetrics exportMetadataInRocksDB exportPopRecord"),
    ("brokers.controllers", "haStatus getSyncStateSet getBrokerEpoch getControllerMetaData"),
    ("brokers.controllers", "getControllerConfig updateControllerConfig electMaster cleanBrokerMetadata"),
    ("brokers.export", "dumpCompactionLog"),
    ("brokers.brokers", "getColdDataFlowCtrInfo updateColdDataFlowCtrGroupConfig"),
    ("brokers.brokers", "removeColdDataFlowCtrGroupConfig setCommitLogReadAheadMode"),
    ("brokers.users", "createUser updateUser deleteUser getUser listUser copyUser"),
    ("brokers.users", "createAcl updateAcl deleteAcl getAcl listAcl copyAcl"),
    ("brokers.export", "rocksDBConfigToJson"),
    ("topics.show", "checkRocksdbCqWriteProgress"),
    ("brokers.brokers", "switchTimerEngine"),
    ("topics.lite", "getBrokerLiteInfo getParentTopicInfo getLiteTopicInfo"),
    ("topics.lite", "getLiteClientInfo getLiteGroupInfo triggerLiteDispatch"),
)
COMMANDS = {name: file for file, names in _FILES for name in names.split()}


def find(name: str) -> Subcommand:
    module = import_module(f".{COMMANDS[name]}", __package__)
    make: Named = next(made for known, made in vars(module).items() if known.replace("_", "") == name.lower())
    return make(name)


def spelled(name: str) -> str | None:
    """Return the command that a word means: capital letters do not count, as in Java."""
    return next((known for known in COMMANDS if known.lower() == name.lower()), None)
