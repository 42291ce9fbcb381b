"""pencil inside other trainers, one file per trainer. Nothing but the command line imports this room."""
