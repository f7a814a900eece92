"""`ModelStore`: list, find, pull, copy and remove models."""
