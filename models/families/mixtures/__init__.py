"""Families with mixtures of experts, one a module."""
