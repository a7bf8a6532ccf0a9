"""Metrics of all daemons: what a scrape is made of, and the ways it leaves: a page for Prometheus, OTLP, a log line.

A daemon hands in one function that yields its `Family` values from the counters that it has anyway; nothing is counted
here and nothing is kept between two scrapes but texts of labels. `exporting.py` starts what the settings ask for.
"""
