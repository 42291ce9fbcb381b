"""pencil inside other people's tools, one file per tool. Nothing but the command line imports this room."""
