"""Tools of requests in fewer tokens."""
