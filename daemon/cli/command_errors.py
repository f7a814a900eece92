"""Errors of commands, as printed to the user.

ClientError               any failure with a sentence and a hint, also those of the client
└── CommandError          the command cannot be done
    └── UsageError        the command line itself is wrong
"""

from __future__ import annotations

from ..client.client_errors import ClientError


class CommandError(ClientError):
    """A command failed: a message in one sentence, and maybe a hint on the next step."""


class UsageError(CommandError):
    """The command line is wrong: exit status 2."""
