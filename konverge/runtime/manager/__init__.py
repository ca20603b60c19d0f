"""The process: start and stop in order, and what it says of itself."""
