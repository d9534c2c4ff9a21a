"""The seam to a processor, and whose fault its errors are."""
