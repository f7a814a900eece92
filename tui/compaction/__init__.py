"""Context compaction: which messages are summarised, how the model is asked, and when."""
