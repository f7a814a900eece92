"""The values that the gauges show: pages, memory, context, speed and costs, without widgets."""
