"""The board's tools for an agent, over the Model Context Protocol.

A server of one client. It reads what the trusted side wrote when the agent was started and stages
wishes; it has no repository, no ledger and no credential, and decides nothing.
"""
