"""`ingle bench` and `ingle eval`: measures the speed and quality of a model."""
