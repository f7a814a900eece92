"""Speech recognition: a process of its own decodes audio files and turns them into text."""
