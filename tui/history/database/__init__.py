"""The SQLite file: schema, row reads and writes, backup, repair, encryption and locks."""
