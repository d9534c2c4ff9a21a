"""One module for each screen, with its style sheet beside it; no screen knows another one."""
