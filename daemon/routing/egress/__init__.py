"""The one way out: redaction, outbound requests, budgets and sending."""
