"""Tables as they are and as they were: what is said when one changes, its history on disk, its form in envelopes."""
