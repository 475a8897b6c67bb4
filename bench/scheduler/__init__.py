"""How quickly pods are bound, what one filter call costs, and what the scheduler needs, beside others in the same run.

`python -m bench.scheduler.run`; see README.md.
"""
