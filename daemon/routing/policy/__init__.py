"""The policy (policy.toml): classes, routes, decisions, consents and conversation taint."""
