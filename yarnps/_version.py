"""The version, readable without the package's metadata (which does not travel to the nodes)."""

VERSION = "0.1.0"
