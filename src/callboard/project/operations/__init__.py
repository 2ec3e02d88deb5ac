"""What can be done to a project, one module a noun.

Each operation works inside a transaction that it neither begins nor ends. It judges first and
writes then, and tells what it did in events.
"""
