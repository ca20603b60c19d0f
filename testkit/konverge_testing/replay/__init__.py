"""`konverge replay`: a recorded reconcile, run again."""
