"""The addresses at which guarded programs send their requests."""
