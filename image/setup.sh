#!/usr/bin/env bash
# Installs what building, running and testing needs and is not there yet: `image/setup.sh [bench]`.
# On Debian the missing packages are installed by apt; elsewhere the missing programs are named. Does nothing, quickly,
# when all is there. Node (20 or later, with npm) must be installed already.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

# program, and the Debian package that has it
needed="
qemu-system-x86_64 qemu-system-x86
mksquashfs squashfs-tools
mkfs.ext4 e2fsprogs
cpio cpio
zstd zstd
patchelf patchelf
depmod kmod
python3 python3
make make
g++ g++
setpriv util-linux
ps procps
"
needed_by_benches="
socat socat
ssh openssh-client
sshd openssh-server
qemu-ga qemu-guest-agent
"

fail() {
	echo "setup: $*" >&2
	exit 1
}

case ${1:-} in
"") ;;
bench) needed+=$needed_by_benches ;;
*) fail "unknown argument \"$1\"; usage: image/setup.sh [bench]" ;;
esac

command -v node >/dev/null || fail "Node was not found. Install Node 20 or later, with npm: https://nodejs.org"
node_version=$(node --version)
node_major=${node_version#v}
node_major=${node_major%%.*}
[ "$node_major" -ge 20 ] || fail "Node 20 or later is needed; $(command -v node) is $node_version"
command -v npm >/dev/null || fail "npm was not found beside Node $node_version. Install npm"

missing_programs=()
missing_packages=()
while read -r program package; do
	[ -n "$program" ] || continue
	if ! command -v "$program" >/dev/null; then
		missing_programs+=("$program")
		missing_packages+=("$package")
	fi
done <<<"$needed"
# A module, not a program: an independent peer of the console speaks through it in the tests.
python_bson=/usr/lib/python3/dist-packages/bson/__init__.py
if [ ! -e "$python_bson" ]; then
	missing_programs+=("$python_bson")
	missing_packages+=(python3-bson)
fi
[ ${#missing_packages[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null || [ ! -e /etc/debian_version ]; then
	fail "these programs are missing: ${missing_programs[*]}. This is not Debian, so install them by hand" \
		"(Debian's packages are called: ${missing_packages[*]})"
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || fail "these packages are missing: ${missing_packages[*]}. Neither root nor sudo is at" \
		"hand; have them installed: apt-get install ${missing_packages[*]}"
	as_root=(sudo)
fi

echo "setup: installing ${missing_packages[*]}" >&2
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends)
# The package index may be absent or old: it is fetched again when the first attempt fails.
"${install[@]}" "${missing_packages[@]}" >/dev/null 2>&1 || {
	"${as_root[@]}" apt-get update --quiet
	"${install[@]}" "${missing_packages[@]}" || fail "apt-get could not install: ${missing_packages[*]}"
}
hash -r
for program in "${missing_programs[@]}"; do
	command -v "$program" >/dev/null || [ -e "$program" ] || fail "$program is still missing after its package was installed"
done
