"""Screens of the context: compaction, tokens and gauges."""
