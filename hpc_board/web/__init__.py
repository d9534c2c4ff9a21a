"""The look of boards in a browser: templates, style and charts, for the exported page and for the service's pages."""
