"""A finished run, told: one HTML file, its charts, a summary in Markdown."""
