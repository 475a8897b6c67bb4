"""What a person in a notebook calls: the GPU as this server sees it, and why an allocation was refused.

- `gpu`: look at the slice, allocate and free, have a refusal explained.
- `hub`: start servers of other accounts, for the validation notebooks of an admin.

It shows limits and never sets them: the limiter in native/libvgpu holds them, `hami_hub.spawner` grants them.
"""
