"""The wire protocols: each translates its requests and answers, and runs no model itself."""
