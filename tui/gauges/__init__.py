"""What the gauges show, as values: pages, memory, context, speed and prices, without a screen."""
