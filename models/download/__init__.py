"""A pull: the files wanted, each from the first source that delivers it, checked, with progress."""
