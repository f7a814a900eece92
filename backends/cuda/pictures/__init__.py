"""Pictures on our own engine: their encoder in the worker, and what they change in a step."""
