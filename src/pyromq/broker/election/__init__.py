"""Decides how an elected set chooses its master and what it may acknowledge: rules without I/O, without a clock."""
