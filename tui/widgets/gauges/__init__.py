"""Gauge widgets."""
