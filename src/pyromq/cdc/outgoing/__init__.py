"""What leaves a capture: changes as messages, boundaries of transactions, heartbeats; and the brokers that take it."""
