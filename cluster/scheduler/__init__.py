"""Where a pod's slices go: scheduler extender, admission webhook, inventory.  `python -m cluster.scheduler`."""
