"""A finished run's labels for other tools, one file per tool; ``tools`` lists them and writes."""
