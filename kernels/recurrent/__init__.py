"""Layers with a state of fixed size, in plain torch: short convolutions."""
