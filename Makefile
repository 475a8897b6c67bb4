# `make` alone lists what there is.  Everything is made in .venv, from the versions pinned in requirements/.

PYTHON ?= python3
PORT ?= 8000
UV_VERSION := 0.13.9

BIN := .venv/bin
# PyTorch's CUDA headers are not the ones that the native parts are compiled with: it has an environment of its own.
TORCH := .venv-torch
# The tests of hubs run a second time, with the oldest JupyterHub that is supported.
HUB5 := .venv-hub5
CARD := $(shell nvidia-smi -L 2>/dev/null | head -n 1)
DEMO := $(if $(CARD),$(TORCH),.venv)

NATIVE := $(shell find native -type f -not -name '*.md' -not -path '*/__pycache__/*')
C_FILES := $(shell find native tests $(wildcard bench) -name '*.[ch]')

export PYTHON
# What pip was told about the network holds for uv too.
export UV_SYSTEM_CERTS ?= $(if $(wildcard /etc/ssl/certs/ca-* /etc/pki/tls/certs/ca-*),1,0)
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
endif
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(PIP_CERT)
endif
export UV_HTTP_TIMEOUT ?= 180
export UV_PYTHON_DOWNLOADS := never

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-hub5 lint lint-style lint-types lint-imports lint-c format prove bench cluster catalogs build images lint-chart lock clean

help:  ## this list
	@echo "HAMi Hub: GPU slices for JupyterHub"
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16

demo: $(DEMO)/.demo $(DEMO)/.package  ## JupyterHub with GPU slices on http://127.0.0.1:8000; PORT=8001 for another port
	@exec $(DEMO)/bin/hami-hub demo --port $(PORT) $(ARGS)

test: .venv/.test .venv/.package  ## all the tests that this machine can run; ARGS="tests/unit -k units" for some
	@requirements/system.sh chromium cluster docker aarch64
	@$(if $(ARGS),,mkdir -p build; $(BIN)/python -m tests.cluster.rig build > build/cluster-programs.log 2>&1 &)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest $(ARGS)
	@$(if $(ARGS),,$(MAKE) --no-print-directory test-hub5)

# What differs between the two: starts, waits, refusals, restarts, form, languages, quotas, pages, pods.  What needs a
# daemon of its own was tested with the newest.
HUB5_TESTS := starting waiting refusals quotas restart machine promises form_hub languages service kube_hub tljh
test-hub5: $(HUB5)/.hub5 $(HUB5)/.package
	@echo "Once more with JupyterHub $$($(HUB5)/bin/python -c 'import jupyterhub; print(jupyterhub.__version__)'), the oldest that is supported"
	@PATH="$(CURDIR)/$(HUB5)/bin:$$PATH" $(HUB5)/bin/pytest -m "tljh or not (docker or systemd)" \
	  $(patsubst %,tests/hub/test_%.py,$(HUB5_TESTS)) $(ARGS)

lint: lint-style lint-types lint-imports lint-c  ## style, types, imports, C format

lint-style: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-types: .venv/.test
	$(BIN)/mypy

lint-imports: .venv/.test .venv/.package
	$(BIN)/lint-imports

lint-c: .venv/.test
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES)

format: .venv/.test  ## put the sources into shape
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)

prove: $(TORCH)/.demo $(TORCH)/.package  ## on a machine with an NVIDIA card: the proofs with PyTorch, into docs/proofs/
	@PATH="$(CURDIR)/$(TORCH)/bin:$$PATH" $(TORCH)/bin/hami-hub prove $(ARGS)

# Tagged linux_x86_64 or linux_aarch64, for machines like this one; a wheel for others is built where glibc is old.
bench: .venv/.test .venv/.package  ## does the cap hold by every known way, and what does it cost; ARGS="--simulated" without a card
	$(BIN)/python -m bench.limiter.run $(ARGS)

cluster: .venv/.test  ## a real Kubernetes on this machine, until Ctrl-C; ARGS="--nodes 2" for more of it
	@requirements/system.sh cluster
	@exec $(BIN)/python -m tests.cluster.rig up $(ARGS)

catalogs: .venv/.test  ## bring the sentences in other languages up to what the code says; ARGS=fr begins a language
	@$(BIN)/python -m tests.catalogs $(ARGS)

build: .venv/.uv  ## the wheel, into dist/
	@requirements/system.sh compiler
	$(BIN)/uv build --quiet --wheel --build-constraints requirements/build.txt --out-dir dist
	@ls dist/*.whl

images: .venv/.test  ## the container images for Kubernetes, by buildah, podman or docker; ARGS="--debian" without a registry
	@$(BIN)/python images/build.py $(ARGS)

lint-chart: .venv/.test  ## the Helm chart, with every value
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -q tests/cluster/test_chart_values.py

lock: .venv/.test  ## pin the versions of everything, in requirements/; UPGRADE=1 for the newest ones
	$(BIN)/python requirements/lock.py $(if $(UPGRADE),--upgrade)

clean:  ## remove everything that was made here, the demo's homes too
	rm -rf .venv $(TORCH) $(HUB5) .demo build dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment whose Python is gone, after an upgrade of the system, is made anew.
$(foreach venv,.venv $(TORCH) $(HUB5),$(shell [ -e $(venv)/bin/python ] || rm -f $(venv)/.uv))

%/.uv:
	@requirements/system.sh python
	@echo "Making $* with $(PYTHON)"
	@$(PYTHON) -m venv --clear $*
	@$*/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

.venv/.demo: requirements/demo.txt .venv/.uv
	$(install)

.venv/.test: requirements/test.txt .venv/.uv
	$(install)

$(HUB5)/.hub5: requirements/hub5.txt $(HUB5)/.uv
	$(install)

$(TORCH)/.demo: requirements/torch.txt $(TORCH)/.uv
	@echo "There is a card, so PyTorch is installed: some 3 GB"
	$(install)

# The Python files are used where they stand; the native parts are compiled into the environment.
%/.package: %/.uv pyproject.toml requirements/build.txt $(NATIVE)
	@requirements/system.sh compiler
	@echo "Compiling the native parts"
	@$*/bin/uv pip install --quiet --python $*/bin/python --no-deps --build-constraints requirements/build.txt \
	  --reinstall-package hami-hub --editable .
	@touch $@

define install
	@echo "Installing $<"
	@$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --requirements $<
	@touch $@
endef
