"""Recommends which model to run on a machine, how, and at what predicted speed: pure functions."""
