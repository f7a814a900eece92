"""RMS norm, RoPE, gated activation, and int8 quantisation of activations."""
