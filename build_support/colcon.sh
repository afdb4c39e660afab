#!/usr/bin/env bash
# Build mm_ros in a ROS 2 workspace with the wheels of the venv as the underlay, with and without --symlink-install.
# The tests run against the build without it.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
venv=$(cd "$1" && pwd)
workspace=${COLCON_WORKSPACE:-$source/.colcon}
# colcon skips the slow tests, which `make test` and `make test-packaging` run.
export PYTEST_ADDOPTS=${PYTEST_ADDOPTS:--m "'not slow and not slow_packaging'" ${COLCON_TESTS:+-k "'$COLCON_TESTS'"}}

mkdir -p "$workspace/src"
ln -sfn "$source" "$workspace/src/mm_ros"
export VIRTUAL_ENV=$venv AMENT_PREFIX_PATH=$venv CMAKE_PREFIX_PATH=$venv PATH=$venv/bin:$PATH
cd "$workspace"

build() {
  colcon --log-base "log-$1" build --build-base "build-$1" --install-base "install-$1" \
    --event-handlers console_direct- --cmake-args -DBUILD_TESTING=ON "-DPython3_EXECUTABLE=$venv/bin/python" "${@:2}"
}

# In the sourced workspace and from another folder, Python must import the installed modules.
check() {
  (
    set +u
    . "install-$1/setup.sh"
    cd /
    python - "$workspace/install-$1" <<'PYTHON'
import sys

import mm_ros.maths
import mm_ros.msg

for module in (mm_ros, mm_ros.maths, mm_ros.msg):
    assert module.__file__.startswith(sys.argv[1]), f"{module.__name__} comes from {module.__file__}"
print(f"mm_ros.msg and mm_ros.maths come from {sys.argv[1]}")
PYTHON
    if command -v ros2 >/dev/null; then ros2 pkg executables mm_ros; else ls "$workspace/install-$1/mm_ros/lib/mm_ros"; fi
  )
}

build symlink --symlink-install
check symlink
build plain
check plain
colcon --log-base log-plain test --build-base build-plain --install-base install-plain \
  --event-handlers console_direct+ console_cohesion- --return-code-on-test-failure
colcon test-result --test-result-base build-plain
