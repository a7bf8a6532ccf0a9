"""Ready-made middleware for clients and apps: traces, metrics, and repeats that are dropped. Each file stands alone."""
