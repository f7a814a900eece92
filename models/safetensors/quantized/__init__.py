"""Quantised checkpoints: what their settings say, and how each format stores a matrix."""
