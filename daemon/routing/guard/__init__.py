"""Requests of cloud agents, passed on with what the policy keeps here masked."""
