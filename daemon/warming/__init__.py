"""Prompts of agents that are computed before they are asked for."""
