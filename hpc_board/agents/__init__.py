"""The door for coding agents: a board as tools of the Model Context Protocol."""
