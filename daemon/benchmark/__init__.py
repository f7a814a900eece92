"""`ingle bench`: how fast a model is here, in which way of running it, and what changed."""
