"""Egress: redaction, outbound requests, budgets and sending."""
