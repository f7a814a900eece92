"""Layers with a state of fixed size, in plain torch: convolutions, delta rule, state spaces."""
