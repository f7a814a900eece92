"""Stored data on this machine: locations, retention periods, erasure."""
