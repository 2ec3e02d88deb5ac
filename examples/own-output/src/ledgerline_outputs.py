"""Entries of a ledger of files: an output type and a verifier of a project's own.

Each entry is one file in the folder that LEDGERLINE_FOLDER names, called after its Claim. A file
that stands is never changed, so that an entry is booked once, however often somebody tries.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from callboard.board.outputs.own import Output, Place, Read, Refused, Request

FOLDER = "LEDGERLINE_FOLDER"


class LedgerlineEntry:
    """The output type `ledgerline.entry`: `{account, amount, text?}`, the amount in cents."""

    def prepare(self, request: Request) -> Mapping[str, Any]:
        """Judge the body; the entry then only needs to know what to book."""
        account, amount = request.body.get("account"), request.body.get("amount")
        if not isinstance(account, str) or not account.isidentifier():
            raise Refused("account is not the name of one")
        if type(amount) is not int or amount == 0:
            raise Refused("amount is not a number of cents other than 0")
        return {"account": account, "amount": amount}

    def scope(self, output: Output) -> Mapping[str, Any]:
        """An entry touches its account alone."""
        path = f"ledgerline/{output.data['account']}"
        return {"repository": output.repository, "path": path}

    def apply(self, output: Output, place: Place) -> None:
        """Make the file appear whole, unless it is there."""
        folder, name = _folder(), _name(output)
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{secrets.token_hex(8)}"
        try:
            with unfinished.open("xb") as stream:
                stream.write(_line(output))
                stream.flush()
                os.fsync(stream.fileno())
            os.link(unfinished, folder / name)
        except FileExistsError:
            # Somebody was here before, perhaps this very entry's own first try; `verify` tells.
            return
        finally:
            unfinished.unlink(missing_ok=True)

    def verify(self, output: Output, place: Place) -> str | None:
        """Read the file."""
        try:
            found = (_folder() / _name(output)).read_bytes()
        except FileNotFoundError:
            return f"there is no entry {_name(output)}"
        return None if found == _line(output) else f"the entry {_name(output)} is another one"


def amount_at_most(
    output: Mapping[str, Any], expected: Mapping[str, Any], read: Read
) -> str | None:
    """The verifier `ledgerline.amount`: no entry of more than `cents`."""
    amount = json.loads(read(output["blob"]))["amount"]
    limit = expected["cents"]
    return None if amount <= limit else f"{amount} cents, more than {limit}"


def _folder() -> Path:
    # Only whoever delivers has it: what judges an output is told nothing of it.
    return Path(os.environ[FOLDER])


def _name(output: Output) -> str:
    return f"{output.claim_id}-{output.number}.json"


def _line(output: Output) -> bytes:
    entry = {**output.data, "text": output.body.get("text", ""), "work_id": output.work_id}
    return json.dumps(entry, sort_keys=True).encode() + b"\n"
