"""Export a finished run's labels to other tools. One module per tool; ``tools`` lists them and writes the files."""
