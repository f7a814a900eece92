"""What keeps a process that reads strangers' files from doing anything else."""
