"""Keys of Java's transport that have no effect here: threads, buffers and tuning of netty."""

from __future__ import annotations

from ..config import IgnoredKeys

SERVER_KEYS = (
    IgnoredKeys(
        "there are no thread pools here",
        """
        serverWorkerThreads=8 serverSelectorThreads=3 serverCallbackExecutorThreads=0 serverOnewaySemaphoreValue=256
        serverAsyncSemaphoreValue=64 serverNettyWorkerGroupEnable=true serverPooledByteBufAllocatorEnable=true
        useEpollNativeSelector=false
        """,
    ),
    IgnoredKeys("the operating system sizes these better", "serverSocketSndBufSize=0 serverSocketRcvBufSize=0"),
    IgnoredKeys("the backlog is 1024", "serverSocketBacklog=1024"),
    IgnoredKeys("reading goes on at a quarter of the high mark", "writeBufferLowWaterMark=0"),
    IgnoredKeys("requests in work are always finished", "enableShutdownGracefully=false"),
)

# Java reads these from the same file, but does not list them when it is asked for its settings.
CLIENT_KEYS = IgnoredKeys(
    "the connections that we make need no such tuning",
    """
    clientWorkerThreads= clientCallbackExecutorThreads= clientOnewaySemaphoreValue= clientAsyncSemaphoreValue=
    connectTimeoutMillis= channelNotActiveInterval= clientChannelMaxIdleTimeSeconds= clientSocketSndBufSize=
    clientSocketRcvBufSize= clientPooledByteBufAllocatorEnable= clientCloseSocketIfTimeout= disableCallbackExecutor=
    disableNettyWorkerGroup= maxReconnectIntervalTimeSeconds= enableReconnectForGoAway= enableTransparentRetry=
    """,
)
TLS_KEYS = IgnoredKeys("client certificates that are asked for are always checked", "tls.server.authClient=")
