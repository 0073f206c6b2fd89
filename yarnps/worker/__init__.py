"""The worker's side of the parameter server; its public names are in `yarnps`."""
