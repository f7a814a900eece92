"""Decides where a request may be answered: detection, policy, egress and its ledger."""
