"""As what an agent can be started. Names only; what a role may is decided where it acts.

Source: specification 1, §7.12 (observers, origins and worker authority).
"""

from __future__ import annotations

from typing import Literal, get_args

AgentRole = Literal["observer", "producer", "dispatcher", "worker"]
AGENT_ROLES: tuple[AgentRole, ...] = get_args(AgentRole)
UNASSIGNED: tuple[AgentRole, ...] = ("observer", "producer", "dispatcher")
"""Roles without an assignment; a worker is made by a launch alone."""
