"""Smoke."""
