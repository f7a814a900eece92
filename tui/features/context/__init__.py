"""Features of the context window: compaction, pins, trimming and gauges."""
