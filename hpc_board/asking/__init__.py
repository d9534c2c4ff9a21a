"""How often a scheduler is asked, and files and runs are looked at, for all clients of a board together."""
