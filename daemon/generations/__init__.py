"""Generations that outlive their client and can be resumed."""
