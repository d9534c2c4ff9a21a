"""The command line: parse, ask the Board, print. Data goes to stdout, everything else to stderr."""
