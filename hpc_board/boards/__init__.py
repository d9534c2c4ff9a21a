"""Leaderboards: creation and change, moderation, pages of standings, comparison."""
