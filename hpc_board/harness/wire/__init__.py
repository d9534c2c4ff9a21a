"""Frames and values between the supervisor and its children."""
