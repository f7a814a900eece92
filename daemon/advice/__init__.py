"""`ingle advise`: recommends a model and settings for this machine, and can apply them."""
