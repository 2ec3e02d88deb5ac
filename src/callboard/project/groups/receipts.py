"""`project.receipts`: what came of a request."""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.project import names
from callboard.project.access import read, store_of
from callboard.project.answers import ReceiptShown
from callboard.project.groups.group import Group
from callboard.project.operations import receipts


class Receipts(Group):
    """Receipts of one project, for the actor that it was opened by."""

    __slots__ = ()

    def show(self, request_id: str) -> ReceiptShown:
        """The receipt of a request of this actor. Raises `not_found`, `request_id_invalid`."""
        wanted = names.request_id(request_id)
        if wanted is None:
            raise CallboardError(
                "value_invalid", "no request is named", "name one", {"field": "request id"}
            )
        actor = store_of(self._key).actor
        return read(self._key, lambda scope: receipts.show(scope, wanted, actor))
