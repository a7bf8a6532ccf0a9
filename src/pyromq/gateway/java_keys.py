"""Every key of Java's rmq-proxy.json that is no setting here: ignored with the reason, refused unless harmless, or to
come. `pyromq config check --daemon proxy` reads it, and so does the gateway."""

from __future__ import annotations

from ..config import IgnoredKeys, JavaKeys, PlannedKeys, RefusedKeys

_REFUSED = (
    RefusedKeys(
        "this is the gateway of a cluster; a broker has its own endpoint",
        "start `pyromq broker` or `pyromq up`",
        "proxyMode=cluster",
    ),
    RefusedKeys(
        "the users are those of the brokers",
        "make users of RocketMQ 4.x's accounts by `pyromq acl import`",
        "migrateAuthFromV1Enabled=false",
    ),
    RefusedKeys("name servers are named directly", "list them in namesrvAddr", "namesrvDomain= namesrvDomainSubgroup="),
    RefusedKeys(
        "delays are exact here, which needs the brokers' timers, not their delay levels",
        "switch timers on at the brokers (timerWheelEnable)",
        "useDelayLevel=false",
    ),
)

_IGNORED = {
    "it is the cluster of the name servers": "proxyClusterName= proxyName= brokerConfigPath=",
    "there are no thread pools here": """
        grpcThreadPoolNums= grpcThreadPoolQueueCapacity=100000 grpcRouteThreadPoolNums=
        grpcRouteThreadQueueCapacity=10000 grpcProducerThreadPoolNums= grpcProducerThreadQueueCapacity=10000
        grpcConsumerThreadPoolNums= grpcConsumerThreadQueueCapacity=10000 grpcClientManagerThreadPoolNums=
        grpcClientManagerThreadQueueCapacity=10000 grpcTransactionThreadPoolNums=
        grpcTransactionThreadQueueCapacity=10000 grpcBossLoopNum=1 grpcWorkerLoopNum= enableGrpcEpoll=false
        heartbeatSyncerThreadPoolNums=4 heartbeatSyncerThreadPoolQueueCapacity=100 enablePrintJstack=true
        printJstackInMillis=60000 printThreadPoolStatusInMillis=3000 producerProcessorThreadPoolNums=
        producerProcessorThreadPoolQueueCapacity=10000 consumerProcessorThreadPoolNums=
        consumerProcessorThreadPoolQueueCapacity=10000 topicRouteServiceThreadPoolNums=
        topicRouteServiceThreadPoolQueueCapacity=5000 metadataThreadPoolNums=3 metadataThreadPoolQueueCapacity=100000
        transactionHeartbeatThreadPoolNums=20 transactionHeartbeatThreadPoolQueueCapacity=200 renewThreadPoolNums=2
        renewMaxThreadPoolNums=4 renewThreadPoolQueueCapacity=300 returnHandleGroupThreadPoolNums=2
        remotingHeartbeatThreadPoolNums= remotingTopicRouteThreadPoolNums= remotingSendMessageThreadPoolNums=
        remotingPullMessageThreadPoolNums= remotingUpdateOffsetThreadPoolNums= remotingDefaultThreadPoolNums=
        remotingHeartbeatThreadPoolQueueCapacity=50000 remotingTopicRouteThreadPoolQueueCapacity=50000
        remotingSendThreadPoolQueueCapacity=10000 remotingPullThreadPoolQueueCapacity=50000
        remotingUpdateOffsetThreadPoolQueueCapacity=10000 remotingDefaultThreadPoolQueueCapacity=50000
        remotingWaitTimeMillsInSendQueue=3000 remotingWaitTimeMillsInPullQueue=5000
        remotingWaitTimeMillsInHeartbeatQueue=31000 remotingWaitTimeMillsInUpdateOffsetQueue=3000
        remotingWaitTimeMillsInTopicRouteQueue=3000 remotingWaitTimeMillsInDefaultQueue=3000""",
    "one connection to each broker carries all gRPC clients": "rocketmqMQClientNum=6",
    "nothing is locked here": "lockTimeoutMsInHandleGroup=3000",
    "renewals are timed each by itself, not scanned": "renewSchedulePeriodMillis=5000",
    "every port takes remoting and HTTP/2": "enableRemotingLocalProxyGrpc=true localProxyConnectTimeoutMs=3000",
    "a client is known until channelExpiredTimeout": "channelExpiredInSeconds=60 contextExpiredInSeconds=30",
    "what is older than the time of its refresh is read anew": """
        topicRouteServiceCacheExpiredSeconds=300 topicConfigCacheExpiredSeconds=300
        subscriptionGroupConfigCacheExpiredSeconds=300""",
    "policies are read with their user, as userCacheRefreshSeconds and its like say": """
        aclCacheExpiredSeconds=300 aclCacheRefreshSeconds=20 aclCacheMaxNum=20000""",
    "users are those of the cluster's servers, and each request is judged": """
        authConfigPath= authenticationProvider= authenticationMetadataProvider= authenticationStrategy=
        authorizationProvider= authorizationMetadataProvider= authorizationStrategy= userCacheExpiredSecond=600
        userCacheRefreshSecond=60 aclCacheExpiredSecond=600 aclCacheRefreshSecond=60
        statefulAuthenticationCacheMaxNum=10000 statefulAuthenticationCacheExpiredSecond=60
        statefulAuthorizationCacheMaxNum=10000 statefulAuthorizationCacheExpiredSecond=60""",
    "users are kept in memory here, and shown to nobody": "accessSecret= allowCopyUser=true",
    "one heartbeat names all topics": "transactionHeartbeatBatchNum=100",
    "a transaction is forgotten by itself, and ended after that all the same": """
        transactionDataExpireScanPeriodMillis=10000 transactionDataMaxWaitClearMillis=30000""",
    "Java does not read it either": "longPollingReserveTimeInMillis=100",
    "useDelayLevel is off": "messageDelayLevel=",
    "certificates are read anew when their files change": "tlsCertWatchIntervalMs=3600000",
    "acks of one call go out together over one connection": "enableBatchAck=false",
    "connections without a call end after serverChannelMaxIdleTimeSeconds": "grpcClientIdleTimeMills=120000",
    "a broker that does not answer is left alone for a while in any case": """
        sendLatencyEnable=false startDetectorEnable=false detectTimeout=200 detectInterval=2000""",
}

_PLANNED = {
    "lite topics": "maxLiteRenewNumPerChannel maxSyncLiteSubscriptionRate",
    "connections": "grpcMaxConcurrentCallsPerConnection",
}

GATEWAY_KEYS = JavaKeys(
    *_REFUSED,
    *(IgnoredKeys(reason, keys) for reason, keys in _IGNORED.items()),
    *(PlannedKeys(feature, keys) for feature, keys in _PLANNED.items()),
)
