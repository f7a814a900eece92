"""Ways to run a model: workers, engines, and the text pipeline in front of them."""
