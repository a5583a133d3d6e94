"""``fairlead install``, ``upgrade`` and ``uninstall``: Fairlead's own objects on a cluster."""
