"""One controller at work: its watches, its queue, its workers."""
