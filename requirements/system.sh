#!/bin/sh
# What the machine itself must have: `system.sh python compiler chromium cluster docker aarch64` checks each, in this order.
# What is missing is installed where that is possible without asking (root on Debian and Ubuntu); elsewhere one
# sentence says what to do.  Chromium is only for the browser tests, what `cluster` looks for only for the tests on a
# real Kubernetes, and dockerd only for those of the Docker spawner: their absence is no error, since those who need them
# say so.
set -eu

PYTHON=${PYTHON:-python3}

# by_apt PACKAGE...: install, or fail
by_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
    echo "Installing $*"
    apt="env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0"
    # without a list of packages, or with an old one, the first try fails
    $apt install -y --no-install-recommends "$@" < /dev/null > /dev/null 2>&1 && return
    $apt update < /dev/null > /dev/null && $apt install -y --no-install-recommends "$@" < /dev/null > /dev/null
}

stop() {
    echo "$1" >&2
    exit 1
}

python_runs() { $PYTHON -c "$1" > /dev/null 2>&1; }

need_python() {
    command -v "$PYTHON" > /dev/null || by_apt python3 python3-venv ||
        stop "There is no $PYTHON. Install Python 3.10 or newer, on Debian and Ubuntu the packages python3 and python3-venv."
    python_runs 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        stop "$PYTHON is $($PYTHON -V 2>&1), HAMi Hub needs 3.10 or newer. Name a newer one: make PYTHON=python3.12"
    # Debian leaves ensurepip out of python3; the package is named after the version
    python_runs 'import ensurepip, venv' || by_apt "$($PYTHON -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" ||
        stop "$PYTHON can't make virtual environments. Install the package python3-venv."
}

compiles() { printf '#include <stdio.h>\nint main(void) { return 0; }\n' | cc -x c - -o /dev/null 2> /dev/null; }

need_compiler() {
    compiles || by_apt gcc libc6-dev ||
        stop "There is no working C compiler. Install one, on Debian and Ubuntu the package build-essential."
}

need_chromium() {
    [ -x /usr/bin/chromium ] && return
    # Ubuntu's package of that name is only a pointer to a snap
    grep -qs '^ID=debian' /etc/os-release && by_apt chromium fonts-liberation || true
}

need_cluster() {
    # Nothing else brings a Go that is new enough, and without it the rest is of no use.
    [ "$(id -u)" = 0 ] && [ -n "$(command -v go || command -v /usr/local/go/bin/go)" ] || return 0
    PATH=$PATH:/usr/sbin:/sbin
    packages=
    for pair in ip:iproute2 nft:nftables mount:mount nsenter:util-linux cc:gcc pkg-config:pkg-config \
        buildah:buildah debootstrap:debootstrap; do
        command -v "${pair%%:*}" > /dev/null || packages="$packages ${pair#*:}"
    done
    pkg-config --exists libseccomp 2> /dev/null || packages="$packages libseccomp-dev libc6-dev"
    # shellcheck disable=SC2086  # they are several words
    [ -z "$packages" ] || by_apt $packages || true
}

need_docker() {
    # Where systemd would start it at once, a daemon is not put on to a machine unasked.
    [ "$(id -u)" = 0 ] && ! command -v dockerd > /dev/null && [ ! -d /run/systemd/system ] || return 0
    by_apt docker.io iproute2 || true
}

need_aarch64() {
    # Other distributions have the emulator, but not the C library for it.
    [ "$(uname -m)" = x86_64 ] && grep -qs '^ID=debian' /etc/os-release || return 0
    command -v aarch64-linux-gnu-gcc > /dev/null && command -v qemu-aarch64 > /dev/null && return
    by_apt gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user || true
}

for what in "$@"; do
    "need_$what"
done
