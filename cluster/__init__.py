"""The daemons of a Kubernetes cluster: `scheduler` places slices, `deviceplugin` hands them to containers.

They run from images (`images/`) that the chart (`helm/hami-hub`) starts, and are never installed by pip.  Every
decision is `hami_hub.core`'s; these packages carry it to and from the API server and the kubelet.
"""
