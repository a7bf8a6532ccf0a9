"""Makes a broker one replica of an elected set: leads, follows and campaigns by the rules of `broker/election`."""
