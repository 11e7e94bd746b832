#!/usr/bin/env bash
# Runs a command while it holds the lock of a file: `image/alone.sh FILE COMMAND…`. Waits for whoever holds it, and says so.
set -euo pipefail
file=$1
shift
# Where there is no flock, the set-up that comes next says what is missing.
command -v flock >/dev/null || exec "$@"
exec {lock}<"$file"
if ! flock --nonblock "$lock"; then
	echo "waiting for another make in this directory" >&2
	flock "$lock"
fi
# Closed for the command: what it leaves running must not hold the lock.
"$@" {lock}<&-
