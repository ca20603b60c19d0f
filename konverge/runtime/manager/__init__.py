"""The process: start and stop in order."""
