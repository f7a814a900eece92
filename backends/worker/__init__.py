"""The worker process: one model, framed messages on stdin and stdout."""
