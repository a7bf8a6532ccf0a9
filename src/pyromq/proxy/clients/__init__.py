"""The clients of the endpoint: who they are, what they are told, and their telemetry streams."""
