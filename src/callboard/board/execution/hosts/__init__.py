"""Hosts: each runs workers in its own way, behind the one port of `execution.host`."""
