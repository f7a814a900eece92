"""One model family a module, as data: names of tensors, configuration, block. Plug-in point."""
