"""Selection of the engine, device, context and settings for a model."""
