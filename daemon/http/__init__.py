"""From connections to requests, and from answers to bytes."""
