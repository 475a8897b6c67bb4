"""Measuring the core share: how much of a card each slice gets, and how soon."""
