"""Which model to run on a machine, how, and how quick it would be: pure decisions over numbers."""
