"""The gRPC endpoint of RocketMQ 5: apache.rocketmq.v2.MessagingService over whatever answers remoting requests."""
