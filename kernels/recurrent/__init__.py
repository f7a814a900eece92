"""Layers with a state of fixed size, in plain torch: convolutions, the gated delta rule."""
