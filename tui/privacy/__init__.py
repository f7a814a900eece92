"""Finds possibly private data in a text, on this machine; hints without guarantee."""
