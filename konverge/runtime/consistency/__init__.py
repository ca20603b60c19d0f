"""What is known of our own writes: the staleness barrier and the own-write filter."""
