"""The catalog: task folders, and the sources that tasks come from."""
