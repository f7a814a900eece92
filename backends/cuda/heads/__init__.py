"""Draft heads on the device: their keys and values, and the steps that draft."""
