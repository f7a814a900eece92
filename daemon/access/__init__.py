"""Authentication and authorisation: API keys, scopes, Host check, rate limits and exposure."""
