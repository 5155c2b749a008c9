#!/usr/bin/env bash
# run.sh PROGRAM: runs the example on a tmpfs of 6 MiB that only its processes see. Where that is
# not permitted, a limit on the size of every file stands in for a full disk.
set -euo pipefail
program=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if unshare --user --map-root-user --mount mount -t tmpfs -o size=6m tmpfs "$folder" 2>/dev/null; then
    unshare --user --map-root-user --mount bash -c \
        'mount -t tmpfs -o size=6m tmpfs "$1" && "$2" "$1"' full-disk "$folder" "$program"
else
    echo "No tmpfs can be mounted here: files of more than 2 MiB are refused instead."
    trap '' XFSZ
    (ulimit -f 2048 && VSTREAM_LIMITED_FILES=1 "$program" "$folder")
fi
