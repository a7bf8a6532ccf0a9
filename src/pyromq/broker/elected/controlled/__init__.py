"""Makes a broker one replica of a set whose master a controller names: Java's, or `pyromq controller`."""
