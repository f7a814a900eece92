"""Compaction: what of a long chat is summed up, how the model is asked, and when."""
