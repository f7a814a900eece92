"""Remote providers: configuration, keys and prices."""
