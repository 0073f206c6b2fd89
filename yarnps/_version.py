"""The version, in a module of its own: the agent reads it without loading anything else."""

VERSION = "0.1.0"
