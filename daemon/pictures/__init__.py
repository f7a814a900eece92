"""Pictures of requests: decoded in a process of their own, before a model sees them."""
