"""The engines of this machine: which are installed, which to offer, and their installation."""
