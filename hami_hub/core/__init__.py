"""The decisions: amounts, cards, slices, placement, ledger, profiles, HAMi's names, and what people are told.

Nothing here does I/O, reads a clock or knows a framework; the shells around it (`spawner`, `cards`, `slicepage`) do.
"""
