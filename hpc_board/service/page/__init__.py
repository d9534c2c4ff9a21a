"""The pages of a service for a browser: the public part of a board, read-only.

`views.py` has the contents, `pages.py` keeps them while nothing changes, and `web_server.py` speaks HTTP. The script
`web/live.js` asks for its page every few seconds.
"""
