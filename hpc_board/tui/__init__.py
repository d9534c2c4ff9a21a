"""The terminal app: a front end of Board without rules of its own."""
