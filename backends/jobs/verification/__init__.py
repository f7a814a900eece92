"""Compares the logits of an engine with those of a reference engine."""
