"""Readings of this machine: memory, GPUs, power and boot clock."""
