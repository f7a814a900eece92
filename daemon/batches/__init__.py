"""Files that clients leave, and batches of requests that are answered when nobody else waits."""
