"""Diagnoses an installation and suggests repairs."""
