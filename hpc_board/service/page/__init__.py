"""The pages of a service for a browser: the public part of a board, read-only.

`pages.py` makes them, and keeps them while nothing changes; `web_server.py` speaks HTTP. The script `web/live.js` asks
for its page every few seconds.
"""
