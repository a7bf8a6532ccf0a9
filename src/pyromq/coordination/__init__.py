"""Reaches the small store that all members of an elected set agree by: the seam (`store.py`) and etcd behind it."""
