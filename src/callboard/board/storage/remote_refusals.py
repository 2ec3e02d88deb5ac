"""What is refused about a board on a remote, and how it is said.

A remote is only ever called by its name: its address may hold a secret. What git said is kept in
the details, for people, with user names, passwords and queries taken out of addresses.
"""

from __future__ import annotations

import re
import shlex

from callboard.errors import CallboardError

OUTAGES = frozenset({"remote_unreachable", "remote_timeout"})
"""Codes of a remote that could not be asked; nothing is known, and later it may be reached."""

UNPUBLISHED = OUTAGES | {"contention", "outcome_unknown", "push_refused"}
"""Codes with which a write ends that was not judged: it may be tried again as it is."""

# Up to the last `@` before the path: a password may hold one too.
_USERINFO = re.compile(r"(?<=://)[^/\s]*@")
# Git also names a host without its scheme, as where it could not look it up.
_BARE_USERINFO = re.compile(r"[^\s/@:]+:[^\s/@]+@(?=\S)")
_QUERY = re.compile(r"(://[^\s?#]*[?#])\S+")


def remote_invalid(name: str) -> CallboardError:
    """The refusal of something that is not the plain name of a remote."""
    return CallboardError(
        "remote_invalid",
        f"{_plain(name)!r} is not the plain name of a remote",
        "name a remote that `git remote` lists, such as origin; an address gets a name with "
        "`git remote add NAME ADDRESS`",
        {"remote": _plain(name)},
    )


def remote_unknown(name: str, git_dir: str) -> CallboardError:
    """The refusal of a remote that the repository does not have."""
    return CallboardError(
        "remote_unknown",
        f"the repository {_plain(git_dir)!r} has no remote called {name!r}, where the board is "
        "said to live",
        f"git remote add {name} ADDRESS, or correct `remote` under [board] in the settings",
        {"remote": name},
    )


def remote_unreachable(name: str, status: int, said: str) -> CallboardError:
    """The refusal of whatever needs a remote that does not answer."""
    return CallboardError(
        "remote_unreachable",
        f"the remote {name!r}, where the board lives, cannot be read (git ended with {status})",
        f"check the network and your access: git ls-remote {name}; what was fetched last: "
        "callboard status --offline",
        {"remote": name, "status": status, "said": without_secrets(said)},
    )


def remote_timeout(name: str, what: str, timeout_s: float) -> CallboardError:
    """The same for a remote that was too slow; nothing was written."""
    return CallboardError(
        "remote_timeout",
        f"the remote {name!r} was {what} for {timeout_s:g} s, and the call was stopped",
        "try again; a slow remote needs a longer remote_timeout_seconds under [board]",
        {"remote": name, "timeout_s": timeout_s},
    )


def cannot_run(name: str, command: str, error: OSError) -> CallboardError:
    """The refusal where this machine cannot start git."""
    return CallboardError(
        "remote_unreachable",
        f"git {command} for the remote {name!r} cannot be started: {error.strerror}",
        "check that the repository's folder is still there, and the machine's limits",
        {"remote": name, "errno": error.errno},
    )


def too_much_said(name: str, command: str, limit_bytes: int) -> CallboardError:
    """The refusal of an answer that is too long to be read whole."""
    return CallboardError(
        "git_output_limit",
        f"git {command} answered with more than {limit_bytes} bytes about the remote {name!r}",
        f"see what it says: git ls-remote {name}; a remote with fewer branches can hold a board",
        {"remote": name, "command": command, "limit_bytes": limit_bytes},
    )


def fetch_failed(name: str, ref: str) -> CallboardError:
    """The refusal of a remote that answers and does not hand over what it has."""
    return CallboardError(
        "fetch_failed",
        f"{ref!r} is on the remote {name!r} and could not be fetched",
        f"see what git says: git fetch {name} {shlex.quote(ref)}",
        {"remote": name, "ref": ref},
    )


def push_refused(
    name: str, ref: str, status: int | None, said: str, *, shallow: bool
) -> CallboardError:
    """The refusal of a push by a remote whose ref stands where it was expected.

    `shallow` tells that this clone has a cut history, which may be the reason: only words that
    differ from remote to remote would tell it from a hook's refusal.
    """
    reason = ", or may not take what a clone with a cut history sends" if shallow else ""
    cut = f"; if it may be the cut history: git fetch --unshallow {name}" if shallow else ""
    return CallboardError(
        "push_refused",
        f"the remote {name!r} does not let this user write {ref!r}{reason}; nothing was written",
        "ask who runs it for the right to push there: a protected branch, a hook or a missing "
        f"permission stands against it{cut}",
        {
            "remote": name,
            "ref": ref,
            "status": status,
            "shallow": shallow,
            "said": without_secrets(said),
        },
    )


def push_unknown(name: str, ref: str, why: str) -> CallboardError:
    """What is said where nobody can tell whether a push arrived."""
    return CallboardError(
        "outcome_unknown",
        f"it is not known whether the remote {name!r} took the write to {ref!r}: {why}",
        "repeat the command with the same --request-id; it is found if it stands",
        {"remote": name, "ref": ref},
    )


def ref_taken(name: str, ref: str, found: str, expected: str) -> CallboardError:
    """The refusal of a ref on the remote that holds something else than it should."""
    return CallboardError(
        "remote_ref_conflict",
        f"the ref {ref!r} on the remote {name!r} holds {found}, not {expected}",
        "what stands is never moved; look at who made it, then remove it there",
        {"remote": name, "ref": ref, "found": found, "expected": expected},
    )


def board_offline(name: str) -> CallboardError:
    """The refusal of a write with `--offline`."""
    return CallboardError(
        "board_offline",
        f"nothing can be written to the board on the remote {name!r} with --offline",
        "leave out --offline",
        {"remote": name},
    )


def nothing_fetched(name: str, branch: str) -> CallboardError:
    """The refusal of an offline look at a board that this clone has never seen."""
    return CallboardError(
        "queue_not_fetched",
        f"nothing of the board {branch!r} on the remote {name!r} was ever read here",
        "callboard status, once, without --offline",
        {"remote": name, "branch": branch},
    )


def queue_not_fetched(name: str, branch: str) -> CallboardError:
    """The refusal of a clone whose board is on a remote that the settings do not name."""
    return CallboardError(
        "queue_not_fetched",
        f"this clone has no branch {branch!r}, and its remote {name!r} has one",
        f'to work on that board, set remote = "{name}" under [board] in .callboard/config.toml '
        f"and commit, or try: callboard --remote {name} status",
        {"remote": name, "branch": branch},
    )


def without_secrets(said: str) -> str:
    """What git said, without what stands before the host and behind the path in an address."""
    return _QUERY.sub(r"\1***", _BARE_USERINFO.sub("", _USERINFO.sub("", said)))


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")[:200]


def history_lost(
    remote: str, branch: str, private: str, *, seen: str, found: str | None
) -> CallboardError:
    """The refusal of a board that the remote has lost, or set back, since this clone read it."""
    now = "is gone" if found is None else f"is at {found}, which does not lead back to it"
    return CallboardError(
        "ledger_invalid",
        f"the board on branch {branch!r} of the remote {remote!r} was at {seen} when this clone "
        f"read it last; now the branch {now}",
        f"to bring it back: git push --force {shlex.quote(remote)} {seen}:refs/heads/"
        f"{shlex.quote(branch)}; where it was removed on purpose: git update-ref -d {private}",
        {
            "cause": "history_replaced",
            "line": 1,
            "byte": 0,
            "where": f"branch {branch!r} of the remote {remote!r}",
            "seen": seen,
            "found": found,
        },
    )
