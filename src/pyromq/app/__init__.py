"""Services: functions that consume and publish, declared on an `App`, run in one process or many."""
