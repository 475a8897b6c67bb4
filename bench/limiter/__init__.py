"""Does the VRAM limit hold on this card, by every way that is known, and what does it cost?  See README.md.

`ways` are the ways past a limit, `costs` the measurements and their goals; `column` is what a program runs under (no
limiter, ours, another), `outside` the card as NVML shows it to somebody who is in no slice, `report` the text.
The tests in tests/native prove the limiter on the simulated card; this is for real ones.
"""
