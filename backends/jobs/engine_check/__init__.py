"""Checks an engine step by step, confined as a worker is."""
