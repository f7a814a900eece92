"""Measures how far a quantised model's answers differ from a fuller model's."""
