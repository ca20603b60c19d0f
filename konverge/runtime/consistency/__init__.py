"""Our own writes: the staleness barrier, the own-write filter, and what they remember."""
