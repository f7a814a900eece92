"""Manages the models on this machine: aliases, file metadata, downloads and removal."""
