"""As much of The Littlest JupyterHub as its plugins meet: what has these names there does the same there."""
