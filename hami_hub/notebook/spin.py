"""A program that keeps a card busy until it is ended: kernels of 1 ms, one after the other.  For notebook 04.

By the driver's own library and nothing else, so that it runs wherever a card does, a simulated one too.
"""

from __future__ import annotations

import ctypes
import signal
import sys

_KERNEL_NS = 1_000_000
# Waits for the card's clock; a simulated card knows the name and takes the time without looking inside.
_IMAGE = b"""
.version 6.4
.target sm_70
.address_size 64
.visible .entry sim_spin(.param .u64 ns)
{
    .reg .u64 %n<3>;
    .reg .pred %p;
    ld.param.u64 %n0, [ns];
    mov.u64 %n1, %globaltimer;
    add.u64 %n1, %n1, %n0;
again:
    mov.u64 %n2, %globaltimer;
    setp.lt.u64 %p, %n2, %n1;
    @%p bra again;
    ret;
}
"""


def main() -> None:
    """Launch for ever.  Prints "ready" when the first kernel is done."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        result = getattr(cuda, name)(*arguments)
        if result:
            sys.exit(f"The card can't be used: {name} answered {result}.")

    context, module, kernel, ns = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(_KERNEL_NS)
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), _IMAGE)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"sim_spin")
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(ns))
    size = (ctypes.c_uint(1),) * 3
    first = True
    while True:
        call("cuLaunchKernel", kernel, *size, *size, ctypes.c_uint(0), None, parameters, None)
        if first:
            call("cuCtxSynchronize")
            print("ready", flush=True)
            first = False


if __name__ == "__main__":
    main()
