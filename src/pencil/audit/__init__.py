"""Check a random sample of a run's labels by hand, and certify how many of all of them are wrong."""
