"""Reports on policies: their status, lint, and a preview of a split. Nothing here decides a placement."""
