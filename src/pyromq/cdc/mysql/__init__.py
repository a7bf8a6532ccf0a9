"""MySQL as a source: what its log, its GTIDs and its snapshots have other than MariaDB's."""
