"""Composition of the daemon: app, route table, listeners, gauges, lock, log and shutdown."""
