"""The scroll view: layout, rendered-lines cache, block navigation, selection and search."""
