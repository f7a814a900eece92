"""The providers' protocols, one module each."""
