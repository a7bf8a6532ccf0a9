"""ACL 1.0 of RocketMQ 4.x: its files (`plain_acl.yml`, `conf/acl/*.yml`), its white lists, and what they are here."""
