#!/usr/bin/env bash
# Build and test mm_ros as a workspace of a ROS 2 machine does, with the wheels of the venv as the underlay:
# once with --symlink-install, once without, which is what the tests then run against.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
venv=$(cd "$1" && pwd)
workspace=${COLCON_WORKSPACE:-$source/.colcon}
# What colcon's tests leave out is what `make test` and `make test-packaging` have run already.
export PYTEST_ADDOPTS=${PYTEST_ADDOPTS:--m "'not slow and not slow_packaging'" ${COLCON_TESTS:+-k "'$COLCON_TESTS'"}}

mkdir -p "$workspace/src"
ln -sfn "$source" "$workspace/src/mm_ros"
export VIRTUAL_ENV=$venv AMENT_PREFIX_PATH=$venv CMAKE_PREFIX_PATH=$venv PATH=$venv/bin:$PATH
cd "$workspace"

build() {
  colcon --log-base "log-$1" build --build-base "build-$1" --install-base "install-$1" \
    --event-handlers console_direct- --cmake-args -DBUILD_TESTING=ON "-DPython3_EXECUTABLE=$venv/bin/python" "${@:2}"
}

# With the workspace sourced and from elsewhere, what is imported has to be what was installed.
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
