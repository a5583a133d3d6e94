"""Development programs: run from the root of the source tree, never shipped with the package."""
