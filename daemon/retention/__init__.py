"""What ingle keeps on this machine: where, for how long, and how it is erased."""
