"""Our own writes: the staleness barrier and the own-write filter."""
