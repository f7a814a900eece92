"""Everything about a model that is not running it."""
