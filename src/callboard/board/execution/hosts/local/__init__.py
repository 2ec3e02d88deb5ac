"""The host that is this machine: supervisors, their registry, and the processes they own."""
