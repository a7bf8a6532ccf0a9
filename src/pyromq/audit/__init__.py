"""The audit log: who did what, as lines of JSON in files of their own, chained so that a cut or a change is seen."""
