"""What a search reads beside its supernet, and refuses."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass
