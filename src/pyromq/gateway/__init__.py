"""`pyromq proxy`: the gRPC endpoint before a whole cluster, Apache's brokers included."""
