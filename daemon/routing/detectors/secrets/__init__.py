"""Detectors of passwords, API keys and private keys."""
