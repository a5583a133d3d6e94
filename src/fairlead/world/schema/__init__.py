"""What the embedded API server serves: resources, field types, defaults and validation per kind."""
