"""The pages of a service for a browser: the public part of a board, read-only, and new ranks as they come.

`views.py` has the contents, `pages.py` keeps them while nothing changes, `viewers.py` tells browsers of changes, and
`web_server.py` speaks HTTP.
"""
