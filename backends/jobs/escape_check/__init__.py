"""Attempts to leave the confinement of a worker, made inside a confined process."""
