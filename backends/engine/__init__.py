"""The step loop shared by the local runners: scheduler, sequences, batches."""
