"""The models on this machine: aliases, facts of their files, downloads and removal."""
