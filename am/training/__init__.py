"""The training side of the job, without I/O: input, leases, epochs, saves and the model."""
