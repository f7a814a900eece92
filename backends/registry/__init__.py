"""The engines that can run a model: one descriptor each, which loads no native code."""
