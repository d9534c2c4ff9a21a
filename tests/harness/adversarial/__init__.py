"""Submissions that try to win without computing, what each of them must end with, and how it is found out."""
