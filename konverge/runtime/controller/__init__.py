"""One controller at work: its watches, its queue, its workers, and what becomes of a result."""
