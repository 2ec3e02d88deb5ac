"""What callers of a project call, one module a noun: checks of what they give, then the operation.

A group holds nothing but a key. Every change takes `expected_revision` (refused with
`revision_conflict` when the project is elsewhere) and `request_id` (repeating it gives the first
answer). `branch` None means the selected branch, or the session's where there is a session.
"""
