"""Leads sets of brokers in controller mode, Java's among them, by the requests of Java's controller; etcd remembers."""
