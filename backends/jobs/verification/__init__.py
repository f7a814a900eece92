"""Proof that an engine computes what another computes, on the same file and the same text."""
