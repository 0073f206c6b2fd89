"""Parameter-server training on Hadoop YARN."""
