"""Files that survive a crash: atomic writes, log files and stored responses."""
