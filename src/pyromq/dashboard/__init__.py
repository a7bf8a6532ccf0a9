"""The dashboard: a cluster seen, understood and mended from a browser, over the admin protocol alone.

`watch/` keeps a snapshot of the cluster, `views/` makes of it what a page shows, `web/` serves that as pages and as the
API. It drives Apache's brokers too; what those cannot tell is unknown, and never drawn as 0.
"""
