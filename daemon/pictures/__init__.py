"""Pictures and documents of requests: a process of their own decodes them for models."""
