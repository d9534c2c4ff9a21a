"""The interface to a processor, and the attribution of its errors."""
