#!/bin/bash
# A real OpenXR runtime (Monado, without headset, screen or GPU) for `make test-openxr`.
#
#   tools/monado.sh setup        make the tree: Debian 13 with Monado in a folder, kept between runs
#   tools/monado.sh run CMD …    run CMD inside it, with this repository and its Python, without network
#   tools/monado.sh key          what the tree depends on, for a CI cache
#
# Service and client must be of one build and need Debian 13's libc, so both live in the tree. The network namespace
# is there because Monado's remote driver listens on all addresses.
set -euo pipefail

SUITE=trixie
PACKAGES="monado-service libopenxr1-monado mesa-vulkan-drivers"
HERE=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-$HERE/.venv/bin/python}
TREE=${MM_ROS_MONADO:-${MM_ROS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mm_ros}/monado}/tree

fail() {
  echo "################################################################" >&2
  echo "# OpenXR was NOT tested: $1" >&2
  echo "################################################################" >&2
  exit 3
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else
    command -v sudo >/dev/null || fail "this needs root (debootstrap, chroot), and there is no sudo"
    sudo --preserve-env=MM_ROS_MONADO,MM_ROS_CACHE,HOME,PYTHON "$@"
  fi
}

key() { echo "$SUITE $PACKAGES $(uname -m)" | sha256sum | cut -c1-16; }

setup() {
  if [ "$(cat "$TREE/.key" 2>/dev/null)" = "$(key)" ]; then
    echo "Monado's tree is there: $TREE"
    return
  fi
  command -v debootstrap >/dev/null || fail "debootstrap is missing (apt install debootstrap)"
  as_root "$HERE/tools/monado.sh" make_tree || fail "the Debian tree could not be made; the log is above"
}

make_tree() {
  mkdir -p "$(dirname "$TREE")"
  # Made beside and moved into place, so that a broken-off run leaves no half tree.
  local new="$TREE.new"
  rm -rf --one-file-system "$new"
  debootstrap --variant=minbase "$SUITE" "$new" | grep -E "^(E:|W:|I: Base)" || true
  chroot "$new" env DEBIAN_FRONTEND=noninteractive sh -c "
    apt-get update -qq &&
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 $PACKAGES >/dev/null &&
    apt-get clean && rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/locale/*"
  test -x "$new/usr/bin/monado-service"
  key >"$new/.key"
  rm -rf --one-file-system "$TREE"
  mv "$new" "$TREE"
}

run() {
  [ -x "$TREE/usr/bin/monado-service" ] || fail "no tree in $TREE; tools/monado.sh setup"
  as_root unshare --net --mount --pid --fork --kill-child "$HERE/tools/monado.sh" inside "$@"
}

inside() {
  ip link set lo up 2>/dev/null || ifconfig lo up
  local prefix
  prefix=$("$PYTHON" -c 'import sys; print(sys.base_prefix)')
  mount --make-rprivate /
  mount -t proc proc "$TREE/proc"
  mount --rbind /dev "$TREE/dev"
  mount -t tmpfs tmpfs "$TREE/tmp"
  # A Python of the system (prefix /usr) is older than Debian 13's, and its parts have names of their own.
  local share=("$HERE" "$prefix")
  if [ "$prefix" = /usr ]; then
    local version
    version=$("$PYTHON" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    share=("$HERE" "/usr/lib/$version")
    cp "/usr/bin/$version" "$TREE/usr/bin/$version"
  fi
  for folder in "${share[@]}"; do
    mkdir -p "$TREE$folder"
    mount --rbind "$folder" "$TREE$folder"
  done
  exec chroot "$TREE" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 MM_ROS_IN_MONADO=1 \
    ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST sh -c 'cd "$1" && shift && exec "$@"' sh "$HERE" "$@"
}

case "${1:-}" in
  setup | key | make_tree) "$1" ;;
  run | inside) verb=$1; shift; "$verb" "$@" ;;
  *) sed -n '2,9p' "$0"; exit 2 ;;
esac
