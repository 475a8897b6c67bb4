"""The exceptions of this package.  Their text is made in `words`."""

from __future__ import annotations


class NotebookError(RuntimeError):
    """One plain sentence for the person in the notebook, shown without a traceback: it says all there is to say."""

    def _render_traceback_(self) -> list[str]:
        # IPython's hook for exceptions that show themselves
        return [str(self)]


class NoGpuError(NotebookError):
    """This server has no card to use."""


class HubError(NotebookError):
    """The hub, or a server of it, refused or failed."""


class OutOfMemoryError(RuntimeError):
    """The card or the slice has no room; the driver's twin of `torch.OutOfMemoryError`, same name and same words."""
