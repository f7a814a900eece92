#!/bin/sh
# Everything that needs a GPU, in one run of at most ten minutes, with nothing from the network:
#   bench/gpu/run_all.sh [PART ...] [--limit SECONDS] [--output FOLDER] [--resume JSON] [--allow-skipped]
# Rehearsed without one, on a fake driver:
#   uv run --extra cuda --group test bench/gpu/run_all.sh --on-cpu
# Python needs torch with CUDA; NVRTC (the extra `cuda`) or nvcc compile the kernels, g++ their twins.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
# What bench/gpu/carry packed, unless it lies here unpacked.
carried="$root/bench/gpu/carried"
if [ -f "$carried.tar.xz" ] && { [ ! -f "$carried/unpacked" ] || [ "$carried.tar.xz" -nt "$carried/unpacked" ]; }; then
    rm -rf "$carried"
    "${PYTHON:-python3}" -m tarfile -e "$carried.tar.xz" "$root/bench/gpu"
    touch "$carried/unpacked"
fi
# Our top-level folders are the subpackages of `ingle`; the root itself must stay off the path, where
# they would hide other packages of the same names.
links=$(mktemp -d)
trap 'rm -rf "$links"' EXIT
mkdir "$links/ingle"
for folder in backends daemon models; do
    ln -s "$root/$folder" "$links/ingle/$folder"
done
mkdir "$links/ingle/kernels"
ln -s "$root"/kernels/* "$links/ingle/kernels/"
if [ -d "$carried/cubins" ]; then
    ln -sfn "$carried/cubins" "$links/ingle/kernels/cubins"
fi
# Packages that the machine lacks, if bench/gpu/carry packed them for this version of Python.
version=$("${PYTHON:-python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
PYTHONPATH="$links:$root/bench${PYTHONPATH:+:$PYTHONPATH}:$carried/site-$version" PYTHONUNBUFFERED=1 \
    "${PYTHON:-python3}" -P "$root/bench/gpu/run_all.py" "$@"
