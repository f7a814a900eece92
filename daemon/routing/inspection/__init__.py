"""Runs all detectors over the texts of a request, in bounded time."""
