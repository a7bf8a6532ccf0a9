"""Every key of Java's broker.conf, by room: carried by a setting to come, ignored, or refused unless harmless.

`pyromq config check --daemon broker` reads it, and so does the broker, whose settings take the carried keys over one by
one. Ignored and refused keys stand with Java 5.5.0's default, which is what the `get config` request shows for them.
"""

from __future__ import annotations

from ..config import IgnoredKeys, JavaKeys, PlannedKeys, RefusedKeys

# Settings of rooms to come: a key leaves this table when a field of the broker's configuration takes it.
_PLANNED = {
    "identity and addresses": "brokerIP2 configBlackList",
    "registration": """
        forceRegister enableSingleTopicRegister disappearTimeAfterStart updateNameServerAddrPeriod
        compatibleWithOldNameSrv""",
    "connections": """
        clientChannelMaxIdleTimeSeconds enableShutdownGracefully enableReconnectForGoAway serverSocketBacklog
        serverSocketSndBufSize serverSocketRcvBufSize writeBufferLowWaterMark connectTimeoutMillis useTLS""",
    "overload answers": """
        pullThreadPoolQueueCapacity litePullThreadPoolQueueCapacity
        ackThreadPoolQueueCapacity queryThreadPoolQueueCapacity replyThreadPoolQueueCapacity
        heartbeatThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity consumerManagerThreadPoolQueueCapacity
        endTransactionPoolQueueCapacity adminBrokerThreadPoolQueueCapacity loadBalanceThreadPoolQueueCapacity
        putThreadPoolQueueCapacity waitTimeMillsInPullQueue waitTimeMillsInLitePullQueue waitTimeMillsInAckQueue
        waitTimeMillsInHeartbeatQueue waitTimeMillsInTransactionQueue waitTimeMillsInAdminBrokerQueue""",
    "sending": "maxTopicLength autoMessageVersionOnTopicLen putMessageTimeout",
    "pulling and offsets": """
        accessMessageInMemoryHotRatio pullBatchMaxMessageCount maxConsumeQueueScan travelCqFileNumWhenGetMessage
        useStaticSubscription enableBroadcastOffsetStore broadcastOffsetExpireSecond broadcastOffsetExpireMaxSecond
        flushConsumerOffsetHistoryInterval enableCleanExpiredOffset coldDataScanEnable coldCtrStrategyEnable
        usePIDColdCtrStrategy""",
    "clients and groups": """
        realTimeNotifyConsumerChange lockInStrictMode subscriptionExpiredTimeout""",
    "the store's files": """
        mappedFileSizeConsumeQueueExt forceVerifyPropCRC messageIndexSafe indexFileWriteEnable
        indexFileReadEnable""",
    "flushing": "flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval",
    "retention": """
        logicalDiskSpaceCleanForciblyThreshold deleteConsumeQueueFilesInterval maxBatchDeleteFilesNum
        redeleteHangedFileInterval""",
    "recovery": "checkCRCOnRecover checkCommitLogOffsetOnRecover maxRecoveryCommitlogFiles commitLogRecoverMaxNum",
    "transactions": """
        transactionOpMsgMaxSize transactionOpBatchInterval transactionMetricFlushInterval
        transWriteOriginTransHalfEnable""",
    "pop": """
        reviveMaxSlow reviveScanTime reviveAckWaitMs enableSkipLongAwaitingAck popReviveSkipIfGroupAbsent
        popReviveConcurrency popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead enableNotifyBeforePopCalculateLag
        popConsumerFSServiceInit""",
    "metrics": "estimateAccumulation timerMetricSmallThreshold",
    "compaction": """
        enableCompaction compactionScheduleInternal maxOffsetMapSize compactionMappedFileSize
        compactionCqMappedFileSize""",
}

# Promises that cannot be kept yet: only the harmless value may stand.
_REFUSED = (
    RefusedKeys(
        "elected sets go by etcd and have no such choices, and there are no acting masters, so sends would wait for "
        "other copies than this asks for",
        "name the copies by inSyncReplicas and minInSyncReplicas, or do without it",
        """
        enableSlaveActingMaster=false enableRemoteEscape=false duplicationEnable=false asyncLearner=false""",
    ),
    RefusedKeys(
        "there is no DLedger log, so no master would be elected",
        "let etcd lead the set (etcdEndpoints, docs/elected-sets.md)",
        "enableDLegerCommitLog=false",
    ),
    RefusedKeys(
        "only RocketMQ's file store and JSON tables are read and written, so data kept by RocksDB would be missing",
        "let Java export it first",
        """
        storeType=default rocksdbCQDoubleWriteEnable=false combineCQPreferCQType=default
        combineAssignOffsetCQType=default combineCQUseRocksdbForLmq=false indexRocksDBEnable=false
        timerRocksDBEnable=false transRocksDBEnable=false popConsumerKVServiceEnable=false
        popConsumerKVServiceInit=false configManagerVersion=v1 useSingleRocksDBForAllConfigs=false""",
    ),
    RefusedKeys(
        "messages under those paths would not be found",
        "put all commit log files into commitlog/ of storePathRootDir",
        "readOnlyCommitLogStorePaths=",
    ),
    RefusedKeys("Java classes cannot be loaded here", "do without the plug-in", "messageStorePlugIn="),
    RefusedKeys(
        "a broker is a process of its own here",
        "start one process per broker",
        "isBrokerContainer=false isInBrokerContainer=false",
    ),
    RefusedKeys(
        "name servers are named directly",
        "list them in namesrvAddr",
        "fetchNamesrvAddrByAddressServer=false fetchNameSrvAddrByDnsLookup=false fetchControllerAddrByDnsLookup=false",
    ),
    RefusedKeys(
        "connections go out directly, past the proxy",
        "route them by the operating system",
        "socksProxyConfig={}|",
    ),
    RefusedKeys(
        "topics with one queue per client (LMQ, lite topics) are not there yet",
        "use ordinary topics",
        "enableLmq=false enableMultiDispatch=false",
    ),
    RefusedKeys(
        "readers would be given what the flush rule holds back",
        "read what is flushed",
        "readUnCommitted=false",
    ),
)

# Ignored without breaking a promise.
_IGNORED = {
    "one event loop takes the place of thread pools": """
        sendMessageThreadPoolNums=2 pullMessageThreadPoolNums=20 litePullMessageThreadPoolNums=20
        ackMessageThreadPoolNums=16 processReplyMessageThreadPoolNums=20 queryMessageThreadPoolNums=10
        adminBrokerThreadPoolNums=16 clientManageThreadPoolNums=32 consumerManageThreadPoolNums=32
        loadBalanceProcessorThreadPoolNums=32 heartbeatThreadPoolNums=2 recoverThreadPoolNums=32
        endTransactionThreadPoolNums=12 putMessageFutureThreadPoolNums=2 batchDispatchRequestThreadPoolNums=16
        transactionCheckRocksdbCoreThreads=2 transactionCheckRocksdbMaxThreads=5
        transactionCheckRocksdbQueueCapacity=2000 timerGetMessageThreadNum=3 timerPutMessageThreadNum=3
        timerReputServiceCorePoolSize=6 timerReputServiceMaxPoolSize=6 timerReputServiceQueueCapacity=10000
        compactionThreadNum=6 dispatchCqThreads=10 dispatchCqCacheNum=4096 serverWorkerThreads=8
        serverCallbackExecutorThreads=0 serverSelectorThreads=3 clientWorkerThreads=4
        clientCallbackExecutorThreads=2 asyncSendEnable=true serverOnewaySemaphoreValue=256
        serverAsyncSemaphoreValue=64 clientOnewaySemaphoreValue=65535 clientAsyncSemaphoreValue=65535
        maxAsyncPutMessageRequests=5000 recoverConcurrently=false disableCallbackExecutor=false
        disableNettyWorkerGroup=false""",
    "the timer tries until a message is stored, keeps its counts and its files right by itself": """
        timerInterceptDelayLevel=false timerSkipUnknownError=false timerEnableRetryUntilSuccess=false
        timerEnableCheckMetrics=true timerCheckMetricsWhen=05 timerWheelSnapshotFlush=false
        timerWheelSnapshotIntervalMs=10000 timerRecallToTimeWheelEnable=true delayOffsetUpdateVersionStep=200""",
    "Netty is not used: back-pressure and housekeeping are transport's own": """
        serverNettyWorkerGroupEnable=true serverPooledByteBufAllocatorEnable=true useEpollNativeSelector=false
        clientPooledByteBufAllocatorEnable=false enableNetWorkFlowControl=false enableFastChannelEventProcess=false
        printChannelGroups=false printChannelGroupsMinNum=5 channelNotActiveInterval=60000
        isScanAvailableNameSrv=true clientSocketSndBufSize=0 clientSocketRcvBufSize=0
        clientCloseSocketIfTimeout=true maxReconnectIntervalTimeSeconds=60""",
    "one writer appends without locks and dispatches in the same call": """
        useReentrantLockWhenPutMessage=true useABSLock=false spinLockCollisionRetreatOptimalDegree=1000
        topicQueueLockNum=32 putMsgIndexHightWater=600000 debugLockEnable=false highSpeedMode=false
        enableBatchPush=false enableAsyncReput=true enableRunningFlagsInFlush=false dispatchFromSenderThread=false
        enableBuildConsumeQueueConcurrently=false putConsumeQueueDataByFileChannel=true
        wakeCommitWhenPutMessage=true wakeFlushWhenPutMessage=false flushCommitLogTimed=true
        replicasPerDiskPartition=1 enableAcceleratedRecovery=false recheckReputOffsetFromCq=false
        searchBcqByCacheEnable=true correctLogicMinOffsetSleepInterval=1 correctLogicMinOffsetForceInterval=300000
        enableScheduleAsyncDeliver=false scheduleAsyncDeliverMaxPendingLimit=2000
        scheduleAsyncDeliverMaxResendNum2Blocked=3 timerEnableDisruptor=false maxChecksumRange=1073741824
        enableLogConsumeQueueRepeatedlyBuildWhenRecover=false""",
    "expressions are evaluated when a message is pulled: no bit maps are written, the results are the same": """
        enableConsumeQueueExt=false enableCalcFilterBitMap=false bitMapLengthConsumeQueueExt=64""",
    "appends are plain writes into the page cache, which is left to the operating system (docs/store.md)": """
        transientStorePoolEnable=false warmMapedFileEnable=false transientStorePoolSize=5
        fastFailIfNoBufferInStorePool=false commitIntervalCommitLog=200
        commitCommitLogLeastPages=4 commitCommitLogThoroughInterval=200 timerWarmEnable=false
        flushLeastPagesWhenWarmMapedFile=4096 mappedFileSwapEnable=true commitLogForceSwapMapInterval=43200000
        commitLogSwapMapInterval=3600000 commitLogSwapMapReserveFileNum=100 logicQueueForceSwapMapInterval=43200000
        logicQueueSwapMapInterval=3600000 cleanSwapedMapInterval=300000 logicQueueSwapMapReserveFileNum=20
        writeWithoutMmap=false transferMsgByHeap=true sharedByteBufferNum=16 dataReadAheadEnable=true
        sampleCountThreshold=5000 sampleSteps=32 timerColdDataCheckIntervalMs=60000""",
    "check points are in one table at first and written down at once; who waits is woken by each message": """
        enablePopBufferMerge=false popCkStayBufferTimeOut=3000 popCkMaxBufferSize=200000
        popCkOffsetMaxQueueSize=20000 appendCkAsync=false appendAckAsync=false enablePopBatchAck=false
        popPollingMapSize=100000 popPollingMapExpireTimeSeconds=600 popLongPollingForceNotifyInterval=800""",
    "it belongs to RocksDB, which is off": """
        timerRocksDBPrecisionMs=1000 timerRocksDBRollMaxTps=8000.0 timerRocksDBTimeExpiredMaxTps=200000.0
        timerRocksDBRollIntervalHours=1 timerRocksDBRollRangeHours=2 timerRocksDBStopScan=false
        timerRecallToTimelineEnable=true iteratorWhenUseRocksdbConsumeQueue=true cleanRocksDBDirtyCQIntervalMin=60
        memTableFlushIntervalMs=3600000 enableRocksDBLog=false combineCQLoadingCQTypes=default;defaultRocksDB
        combineCQEnableCheckSelf=false combineCQMaxExtraSearchCommitLogFiles=3
        bottomMostCompressionTypeForConsumeQueueStore=zstd rocksdbCompressionType=lz4 rocksdbFlushWalFrequency=1024
        rocksdbWalFileRollingThreshold=1073741824 useSeparateStorePathForRocksdbCQ=false maxRocksDBIndexQueryDays=7
        realTimePersistRocksDBConfig=true persistConsumerOffsetIncrementally=false statRocksDBCQIntervalSec=10
        popConsumerKVServiceLog=false""",
    "it belongs to acting masters, which are off, or to Java's own way of electing": """
        skipPreOnline=false syncBrokerMemberGroupPeriod=1000
        maxSlaveResendLength=268435456 syncFromLastFile=false
        syncMasterFlushOffsetWhenStartup=false
        enableSplitMetadata=true splitMetadataSize=2000 sendHeartbeatTimeoutMillis=1000
        brokerNotActiveTimeoutMillis=10000 cleanOfflineBrokerInterval=30000 forwardTimeout=3000""",
    "it belongs to the controller or DLedger, which are off": """
        checkSyncStateSetPeriod=5000 fetchNamesrvAddrInterval=10000
        storePathDLedgerCommitLog= storePathEpochFile= storePathBrokerIdentity= preferredLeaderId= dLegerGroup=
        dLegerPeers= dLegerSelfId=""",
    "sends of a master that is elected wait for every member of the in-sync set": "allAckInSyncStateSet=false",
    "users and policies are in memory, so nothing is cached, and each request is judged": """
        authConfigPath=
        authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
        authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
        authenticationStrategy=
        authorizationProvider=org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider
        authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider
        authorizationStrategy= userCacheMaxNum=1000 userCacheExpiredSecond=600
        userCacheRefreshSecond=60 aclCacheMaxNum=1000 aclCacheExpiredSecond=600 aclCacheRefreshSecond=60
        statefulAuthenticationCacheMaxNum=10000 statefulAuthenticationCacheExpiredSecond=60
        statefulAuthorizationCacheMaxNum=10000 statefulAuthorizationCacheExpiredSecond=60""",
    "it belongs to LMQ and lite topics, which are off": """
        enableLmqQuota=false maxLmqConsumeQueueNum=20000 enableLiteEventMode=true liteEventCheckInterval=10000
        liteEventFullDispatchDelayTime=10000 liteEventFullDispatchDelayTimeForWildcardGroup=10000
        maxClientEventCount=100 liteTtlCheckInterval=120000 minLiteTTl=900000 liteSubscriptionCheckInterval=120000
        liteSubscriptionCheckTimeoutMills=180000 maxLiteSubscriptionCount=100000 enableLmqStats=false
        enableLitePopLog=false liteLagLatencyCollectEnable=false liteLagLatencyMetricsEnable=false
        liteLagCountMetricsEnable=false liteLagLatencyTopK=50""",
    "it shapes Java's own log and statistics files": """
        commercialBaseCount=1 commercialSizePerMsg=4096 accountStatsEnable=true accountStatsPrintZeroValues=true
        maxStatsIdleTimeInMinutes=-1 autoDeleteUnusedStats=true enableDetailStat=true enablePopLog=false
        isolateLogEnable=false diskFallRecorded=true enableScheduleMessageStats=true
        timerProgressLogIntervalMs=10000""",
}

BROKER_KEYS = JavaKeys(
    *(PlannedKeys(feature, keys) for feature, keys in _PLANNED.items()),
    *_REFUSED,
    *(IgnoredKeys(reason, keys) for reason, keys in _IGNORED.items()),
)
