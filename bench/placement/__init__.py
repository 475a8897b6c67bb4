"""How much of a cluster a placement policy fills, and how long one decision takes."""
