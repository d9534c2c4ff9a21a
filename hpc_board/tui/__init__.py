"""The terminal app: a front end of Board that holds no rules of its own."""
