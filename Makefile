# The commands for people and CI. `make` without a target lists them.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help prose heap bench upgrade released demo programs test tools browser fmt supply advisories clippy build-tests control-plane go-tools site-tools run-tests run-quick-tests torture gitops soak defects generate site dist image release clean

CARGO ?= cargo
# One profile for all tests: thousands of runs in virtual time need its speed, and so do dozens of operators on two cores.
# Always the whole workspace: another selection of packages would select other features, and cargo would build again.
TEST := $(CARGO) test --locked --profile fast --workspace
# All except the closed loop and the end-to-end tests, which have phases of their own.
SUITES := architecture features program site memory released supply_chain chart observability conformance control page durability faults readings cluster
BUILT := $(or $(CARGO_TARGET_DIR),target)/fast

# Checks the dependencies. Built with its own lock file into the user's cache, once for each version.
DENY_VERSION := 0.20.2
DENY_ROOT := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cloud-server-operator/tools/cargo-deny-$(DENY_VERSION)
DENY := $(DENY_ROOT)/bin/cargo-deny

# Established programs that check the chart, the rules and the objects; tools/build builds them.
GO_TOOLS := helm promtool prometheus kstatus argocd-health actionlint kubeconform kube-score crdify

phase = @printf '\n== %s %s\n' "$$(date +%H:%M:%S)"
# A command from a Debian package: installed if possible, otherwise named in an error.
debian = @command -v $(1) >/dev/null || { [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2) >/dev/null; } || { echo 'make: $(1) is missing: on Debian, apt-get install $(2)' >&2; exit 1; }

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

prose: tools ## the English of comments and pages, by the rules of Vale in tools/vale
	$(phase) 'the English of comments and pages, by Vale, which the first run builds in about a minute'
	tools/prose

demo: ## a real API server, the simulated cloud, the operator, and a tour
	@examples/demo.sh

programs: ## build the programs of the quick start into target/debug and the cache; the first build takes about ten minutes on two cores
	@tools/programs >/dev/null

# In this order, the cheapest first.
test: tools browser fmt prose supply clippy build-tests control-plane go-tools site-tools run-tests ## formatting, English, dependencies, lints, and all tests, the end-to-end ones on a real control plane
	$(phase) 'all passed'

tools:
	@command -v $(CARGO) >/dev/null || { echo 'make: cargo is missing: install Rust (rustup)' >&2; exit 1; }
	@$(CARGO) --version >/dev/null || { echo 'make: the compiler of rust-toolchain.toml is missing: rustup toolchain install, or RUSTUP_TOOLCHAIN=stable where that is the same release' >&2; exit 1; }
	@command -v go >/dev/null || { [ -n "$$KUBEBUILDER_ASSETS" ] && [ -n "$$HELM$$PROMTOOL$$PROMETHEUS$$KSTATUS$$ARGOCD_HEALTH$$ACTIONLINT$$KUBECONFORM$$KUBE_SCORE$$CRDIFY" ]; } || { echo 'make: go is missing: install Go 1.26.3 or newer; it builds the API server and the tools that the tests run' >&2; exit 1; }
	@command -v cc >/dev/null || { echo 'make: cc is missing: install a C compiler and linker, such as gcc' >&2; exit 1; }
	@$(CARGO) fmt --version >/dev/null 2>&1 || { echo 'make: rustfmt is missing: rustup component add rustfmt' >&2; exit 1; }
	@$(CARGO) clippy --version >/dev/null 2>&1 || { echo 'make: clippy is missing: rustup component add clippy' >&2; exit 1; }

# A test opens the simulator's page in a real browser.
browser:
	$(call debian,chromedriver,chromium chromium-driver)

fmt:
	$(phase) 'formatting'
	$(CARGO) fmt --all --check

$(DENY):
	$(phase) 'cargo-deny: built once, in one to two minutes, then kept in the cache'
	$(CARGO) install --locked --debug --quiet cargo-deny --version $(DENY_VERSION) --root $(DENY_ROOT)

supply: $(DENY)
	$(phase) 'licences, bans, duplicates and sources of the dependencies'
	$(DENY) --locked check --hide-inclusion-graph -D unmatched-skip -D unnecessary-skip -D license-not-encountered licenses bans sources

# Not part of the tests, since the result depends on the day and not on the tree.
advisories: tools $(DENY) ## known vulnerabilities of the dependencies; fetches the RustSec database: needs git and the network
	$(DENY) --locked check --hide-inclusion-graph advisories

clippy:
	$(phase) 'lints'
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings

build-tests:
	$(phase) 'building the tests'
	$(TEST) --no-run

# Built here, so that the first test does not seem to hang. The binary devcluster is built with the tests.
control-plane:
	$(phase) 'etcd, kube-apiserver and kubectl: built once, in about five minutes, then kept in the cache'
	$(BUILT)/devcluster build

# The tests would build them, too. Built here, so that the tests do not seem to hang.
go-tools:
	$(phase) '$(GO_TOOLS): built once, in a few minutes, then kept in the cache'
	@for name in $(GO_TOOLS); do tools/build $$name || exit 1; done

# Two programs, built with their own lock files, in about two and a half minutes on an idle machine. Some pages use curl.
site-tools:
	$(call debian,curl,curl)
	$(phase) 'mdbook and hyperlink: built once, in two to three minutes, then kept in the cache'
	@for name in mdbook hyperlink; do tools/crate $$name || exit 1; done

# End-to-end tests mostly wait, so many of them run concurrently, and the quick tests with them. The output of the quick tests follows
# when they are done.
run-tests:
	$(phase) 'end-to-end tests on a real control plane, and concurrently the quick tests, whose output follows'
	@quick=$$(mktemp) && trap 'rm -f "$$quick"' EXIT && \
		{ $(MAKE) --no-print-directory run-quick-tests >"$$quick" 2>&1 & } && \
		{ INSTA_UPDATE=no RUST_TEST_THREADS=24 $(TEST) --test e2e; passed=$$?; wait $$! || passed=1; cat "$$quick"; exit $$passed; }

run-quick-tests:
	$(phase) 'unit and property tests, and the tests of simulator and control plane'
	$(TEST) --lib --bins $(foreach test,$(SUITES),--test $(test))
	$(TEST) --doc
	$(phase) 'the protocol in a closed loop, in virtual time'
	$(TEST) --test protocol -- --nocapture

torture: tools build-tests control-plane ## a fault at every boundary of every operation, and tests that take minutes; TORTURE_ONLY=create/ selects crash points
	INSTA_UPDATE=no $(TEST) --test e2e -- --ignored --exact torture::torture --nocapture
	[ -n "$$TORTURE_ONLY" ] || INSTA_UPDATE=no RUST_TEST_THREADS=4 $(TEST) --test e2e -- --ignored --skip torture::torture --skip image:: --skip bench:: --skip gitops:: --skip upgrade::

# The tests start a Redis of their own.
gitops: tools build-tests control-plane ## the real Flux and Argo CD apply the repository of examples/gitops; builds both, once, in ten minutes
	$(call debian,/usr/bin/redis-server,redis-server)
	$(call debian,git,git)
	@command -v go >/dev/null || { echo 'make: go is missing: install Go 1.26.3 or newer' >&2; exit 1; }
	$(phase) 'programs of Flux and Argo CD: built once, in about ten minutes, then kept in the cache'
	@for name in kustomize-controller kustomize argocd; do tools/build $$name >/dev/null || exit 1; done
	$(phase) 'Flux and Argo CD on a real control plane'
	INSTA_UPDATE=no RUST_TEST_THREADS=2 $(TEST) --test e2e -- --ignored gitops:: --nocapture

# By default, from the nearest tag before this commit.
upgrade: tools build-tests control-plane ## the previous version (FROM, or the nearest tag before this commit) and this one each continue operations of the other
	PREVIOUS=$$(tools/previous $(FROM)) && export PREVIOUS && INSTA_UPDATE=no $(TEST) --test e2e -- --ignored upgrade:: --nocapture

# Compares with the existing files first, and replaces them only when the new ones are complete.
released: ## before a release: store the objects that this version writes in tests/released; needs FROM as upgrade does
	$(TEST) --test released
	rm -rf $(BUILT)/released && mkdir -p $(BUILT)/released/objects
	RELEASED=$(abspath $(BUILT)/released/objects) $(MAKE) upgrade
	cp crds/cloudserver.dev.yaml $(BUILT)/released/
	rm -rf tests/released && mv $(BUILT)/released tests/released

SOAK_MINUTES ?= 10

soak: tools ## the protocol in virtual time: all pairs of faults, then random schedules for SOAK_MINUTES (10)
	$(TEST) --test protocol every_two_faults -- --ignored --nocapture
	SOAK_MINUTES=$(SOAK_MINUTES) $(TEST) --test protocol soak::soak -- --ignored --exact --nocapture

heap: tools build-tests control-plane ## the memory use of a fleet by source file, from heaptrack; INSTANCES=1000
	@tools/heap

# Measures release builds, driven by the usual tests.
bench: tools build-tests control-plane ## the cost of fleets of INSTANCES (200,1000), compared with a naive controller, RUNS (3) times, into dist/bench
	@tools/bench

defects: tools ## plant one defect at a time, and name a test that notices it
	tests/defects/run

# The definitions first: the chart has a copy of them.
generate: ## write all generated files: crds/, pages of docs/, the chart's copies, the PrometheusRule
	UPDATE_GENERATED=1 $(CARGO) test --locked --workspace --lib tests::
	UPDATE_GENERATED=1 $(CARGO) test --locked --test chart copies::
	UPDATE_GENERATED=1 $(CARGO) test --locked --test observability is_made_from

SITE ?= target/site

site: ## build the documentation site in SITE (target/site), to open or serve from there
	tools/site $(SITE)

DIST ?= dist

# Uses the kubectl and helm of the tests, so that the files are the same on every machine. KUBECTL selects another kubectl.
dist: ## dist/install.yaml for `kubectl apply -f`, and the chart as a package
	mkdir -p $(DIST)
	kubectl=$${KUBECTL:-$$($(CARGO) run --locked --quiet --package devcluster -- build)/kubectl} && \
		"$$kubectl" kustomize deploy > $(DIST)/.install.yaml && mv $(DIST)/.install.yaml $(DIST)/install.yaml
	helm=$$(tools/build helm) && "$$helm" package deploy/chart --destination $(DIST)

# Must include the build machine's architecture, since the tests start that image.
ARCHITECTURES ?= amd64 arm64

image: tools control-plane ## dist/image.tar, the image for ARCHITECTURES (amd64 arm64), and its tests; needs rustup, buildah, python3-venv
	tools/image $(DIST)/image.tar $(ARCHITECTURES)
	IMAGE=$(abspath $(DIST))/image.tar $(TEST) --test e2e -- --ignored image:: --nocapture

release: tools ## dist/release: image, chart, install.yaml, SBOM, provenance, notes and checksums; IMAGE names the repository of the image
	ARCHITECTURES="$(ARCHITECTURES)" tools/release $(DIST)/release

clean: ## delete the build; the control plane in the user's cache stays
	$(CARGO) clean
