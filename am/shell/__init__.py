"""The shell around the state machines: sockets, clocks, files, and what people see."""
