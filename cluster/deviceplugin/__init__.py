"""A node's cards: the kubelet's device plugin and the agent that writes slices.  `python -m cluster.deviceplugin`."""
