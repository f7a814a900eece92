"""Where a request may be answered: what is in it, what the owner allows, and what left."""
