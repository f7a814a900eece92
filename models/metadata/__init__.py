"""What is known of a model on this machine.

Manifest, description, digest, fingerprint, vocabulary.
"""
