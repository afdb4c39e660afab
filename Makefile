# Each target sets up everything that it needs in a .venv: nothing global, no ROS. `make PYTHON=python3.12 …` selects
# the Python (3.10 to 3.13), `make VENV=… …` another venv.

PYTHON ?= $(firstword $(shell for p in python3 python3.12 python3.11 python3.13 python3.10; do \
  $$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done) python3)
VENV ?= .venv
PY := $(VENV)/bin/python
SETUP = @command -v $(PYTHON) >/dev/null || { echo "mm_ros needs Python 3.10 to 3.13, and '$(PYTHON)' is not there. \
On Debian and Ubuntu: sudo apt install python3 python3-venv python3-dev" >&2; exit 1; }; \
  $(PYTHON) build_support/setup_venv.py --venv $(VENV)

# ROS traffic of the started processes stays on this machine.
export ROS_AUTOMATIC_DISCOVERY_RANGE ?= LOCALHOST
# More threads would only compete with each other.
export OMP_NUM_THREADS ?= 1

TESTS ?= test
PYTEST = $(PY) -m pytest
# Many tests wait for other processes, so three at a time use two cores. test/spread.py says which tests share a worker
# and which begin first.
WORKERS ?= 3

.PHONY: audit help venv messages demo test test-packaging test-openxr test-pose lint format colcon bench fuzz page pictures clean

help:
	@echo "make demo         run the graph with a synthetic user and show it in the browser (SECONDS=, HEADLESS=1, CONTROL=keyboard)"
	@echo "make test         all tests (TESTS=test/test_x.py PYTEST_ARGS=-k...)"
	@echo "make lint         ruff, mypy, import contracts"
	@echo "make colcon       build and test in a ROS 2 workspace"
	@echo "make test-openxr  tests against a real OpenXR runtime (Monado)"
	@echo "make test-pose    the pose estimator on real pictures and videos: downloads its networks"
	@echo "make bench        all measurements"
	@echo "make audit        known vulnerabilities of the packages in .venv: asks an advisory database in the network, or ADVISORIES=FOLDER"
	@echo "make fuzz         open damaged files with every file reader (SECONDS=60, FUZZ_ARGS=--keep=FOLDER)"
	@echo "make page         bundle the headset page again, and install IWER for its tests (needs npm)"
	@echo "make pictures     make the pictures of the README again"
	@echo "make clean        remove the files of these targets, and the cache"

venv messages:
	$(SETUP) --extras dev

demo:
	$(SETUP) --extras viewer
	$(VENV)/bin/mm_ros demo $(if $(SECONDS),--seconds $(SECONDS)) $(if $(filter-out 0,$(HEADLESS)),--headless) $(if $(CONTROL),--control $(CONTROL)) $(DEMO_ARGS)

test:
	$(SETUP) --extras viewer,webxr,openxr,steamvr,robot-out,test,lint
	@# The workers would compile the same kernels at the same time.
	$(VENV)/bin/mm_ros warm --quiet
	$(PYTEST) -m "not slow_packaging" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) $(TESTS)

test-packaging:
	$(SETUP) --extras viewer,webxr,openxr,steamvr,robot-out,test,lint
	$(PYTEST) -m slow_packaging -o timeout=840 -o faulthandler_timeout=900 $(PYTEST_ARGS) test/base/test_packaging_slow.py

test-openxr:
	$(SETUP) --extras openxr,test
	tools/monado.sh setup
	tools/monado.sh run $(PY) -m pytest $(PYTEST_ARGS) test/openxr

test-pose:
	$(SETUP) --extras test_pose
	$(VENV)/bin/mm_ros pose-setup
	MM_ROS_NO_SKIPS=1 $(PYTEST) $(PYTEST_ARGS) test/facing/test_pose_estimator.py test/facing/test_camera.py

lint:
	$(SETUP) --extras lint
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format:
	$(SETUP) --extras lint
	$(PY) -m ruff check --fix .

colcon:
	$(SETUP) --extras viewer,webxr,openxr,steamvr,robot-out,test,lint,colcon
	bash build_support/colcon.sh $(VENV)

bench:
	$(SETUP) --extras viewer,test --optional bench
	$(VENV)/bin/mm_ros bench all $(BENCH_ARGS)

# In a separate venv, so that the audit does not include its own dependencies. ADVISORIES: a folder, for machines without
# network.
audit:
	$(SETUP) --extras viewer,webxr,openxr,steamvr
ifdef ADVISORIES
	$(PY) tools/audit.py $(ADVISORIES)
else
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/pip install --quiet pip-audit
	$(VENV)-audit/bin/pip-audit --vulnerability-service osv --progress-spinner off \
	  --path "$$($(PY) -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')"
endif

fuzz:
	$(SETUP) --extras test
	PYTHONPATH=tools $(PY) -m fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(FUZZ_ARGS)

page:
	$(PYTHON) tools/headset_page/build.py

pictures:
	$(SETUP) --extras viewer,test
	$(PY) tools/pictures.py

clean:
	@if [ -x $(VENV)/bin/mm_ros ]; then $(VENV)/bin/mm_ros clean; fi
	rm -rf $(VENV) .venv-* .colcon build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
