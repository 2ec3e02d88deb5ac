"""Grants become runs, runs become evidence: what starts, supervises and accounts for processes."""
