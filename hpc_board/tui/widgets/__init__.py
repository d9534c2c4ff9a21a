"""Widgets of the screens: each shows the values it is given and posts the actions of the user."""
