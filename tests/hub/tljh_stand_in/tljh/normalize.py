"""Names of accounts."""

from __future__ import annotations


def generate_system_username(username: str) -> str:
    return username
