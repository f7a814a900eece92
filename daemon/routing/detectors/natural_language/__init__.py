"""Detectors of names, places, organisations and private topics in prose."""
