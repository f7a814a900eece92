"""Recommends a model for a machine, with its settings and predicted speed: pure functions."""
