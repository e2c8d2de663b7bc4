# Targets for development. `make` without a target prints the list.

CARGO ?= cargo
PREFIX ?= /usr/local
TARGET = $(or $(CARGO_TARGET_DIR),target)
FOBS = $(TARGET)/release/fobs
LAB = $(TARGET)/release/fobs-lab
# Most tests wait for paths and timeouts: two for each core.
TEST_THREADS = $(shell echo $$((2 * $$(nproc))))

.PHONY: help
help: ## print this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: build
build: ## build the optimised binary
	$(CARGO) build --release --locked

.PHONY: demo
demo: build lab ## copy a file and a tree each way and compare them; then fobs beside TCP on a long path
	scripts/install-needs.sh bench
	scripts/demo.sh $(FOBS) $(LAB)

.PHONY: lab
lab: ## build the laboratory (lab/): emulated paths, experiments, reports
	$(CARGO) build --profile lab --locked -p fobs-lab
	mkdir -p $(TARGET)/release
	ln -f $(TARGET)/lab/fobs-lab $(LAB) # beside fobs, where it looks for it

.PHONY: test
test: needs ## lint and run the regular tests (8 minutes and the build, two cores)
	RUST_TEST_THREADS=$(TEST_THREADS) CARGO=$(CARGO) scripts/test-all.sh

.PHONY: test-long
test-long: test msrv deny doc publishable test-releases test-packages ## also run the release tests: swarms, whole grids, many seeds, hostile clients, oldest Rust, licences
	$(CARGO) clippy -p fobs-sim --features long --all-targets --locked -- -D warnings
	$(CARGO) test --locked -p fobs-sim --features long
	$(CARGO) test --locked -p fobs-store -p fobs-filter -p fobs-daemon --features fobs-store/long,fobs-filter/long,fobs-daemon/long
	$(CARGO) clippy -p fobs-daemon --features tokio --all-targets --locked -- -D warnings
	$(CARGO) test --locked -p fobs-daemon --features tokio --test streams
	$(CARGO) test --locked -p fobs-cli --features long
	scripts/test-adapters.sh
	scripts/test-rsync-users.sh
	scripts/test-monitoring.sh
	$(CARGO) build --release --locked -p fobs-cli -p fobs-c
	scripts/test-globus.sh $(FOBS) $(TARGET)/release
	scripts/test-postgres.sh $(FOBS)
	scripts/test-python-long.sh
	$(MAKE) file-systems
	$(MAKE) power-cuts
	$(MAKE) hostile
	$(MAKE) neighbour
	$(MAKE) bench-python

.PHONY: dist
dist: ## build static binaries and packages of them for x86_64 and aarch64, in target/dist (docs/install.md)
	scripts/dist.sh

.PHONY: test-packages
test-packages: dist ## install, try and remove each package; then the end-to-end tests with the packaged binary
	scripts/test-packages.sh
	scripts/test-wheel.sh
	scripts/reproduce.sh
	FOBS_TEST_BIN=$(abspath $(TARGET))/dist/fobs-$(shell uname -m)-unknown-linux-musl \
		$(CARGO) test --locked -p fobs-cli --test e2e -- copies:: trees:: streams:: serving::

.PHONY: test-releases
test-releases: ## try this tree with the newest release, either way round
	scripts/old-and-new.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for a minute, or SECONDS_EACH (nightly Rust)
	scripts/fuzz.sh

.PHONY: lint
lint: style ## check formatting, clippy, cargo xtask tidy, and that the core has no I/O
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

.PHONY: style
style:
	$(CARGO) fmt --all --check
	$(CARGO) xtask tidy
	scripts/without-io.sh

.PHONY: crash
crash: build lab ## kill either side of real copies 300 times, go on with them, compare every byte (10 minutes)
	$(LAB) crash --fobs $(FOBS) --kills 300

.PHONY: file-systems
file-systems: build ## copy to and from each file system that can be mounted here, and break them (root)
	scripts/install-needs.sh mounts
	scripts/file-systems.py $(FOBS) || [ $$? -eq 77 ]

.PHONY: power-cuts
power-cuts: build lab ## cut the power of a copy's destination on ext4 and xfs 300 times, go on, compare every byte (30 minutes; root and loop devices)
	scripts/install-needs.sh
	$(LAB) crash --fobs $(FOBS) --power --kills 300

.PHONY: hostile
hostile: build lab ## play hostile clients against a server: every named attack and 24,000 cases (6 minutes and the build)
	$(CARGO) build --release --locked -p fobs-daemon --features hostile --example hostile
	$(LAB) hostile --fobs $(FOBS)

.PHONY: neighbour
neighbour: build lab ## have another user of the receiving host meddle with 2,000 copies, as root (about 20 minutes)
	$(LAB) hostile --fobs $(FOBS) --neighbour 2000

.PHONY: msrv
msrv: ## build with the minimum Rust version of Cargo.toml
	scripts/oldest-rust.sh

.PHONY: deny
deny: ## check licences and sources of all dependencies (installs cargo-deny)
	command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

.PHONY: doc
doc: ## make the pages of every crate; a link that leads nowhere is an error
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

.PHONY: publishable
publishable: ## check that fobs-cli, the library fobs and what they need would be accepted by the registry (needs its index)
	scripts/publishable.sh

.PHONY: bench
bench: ## measure against rsync, scp, tar over ssh and iperf3 (about 5 minutes and the build, root)
	scripts/install-needs.sh bench
	$(MAKE) lab
	$(LAB) bench --preflight
	$(MAKE) build
	$(CARGO) build --release --locked -p fobs-daemon --example ceiling
	$(LAB) bench --fobs $(FOBS) --ceiling $(TARGET)/release/examples/ceiling \
		--out $(TARGET)/bench/$$(date -u +%Y%m%dT%H%M%SZ).jsonl

.PHONY: install-c
install-c: ## install the C library, its header and its pkg-config file under PREFIX
	$(CARGO) build --release --locked -p fobs-c
	install -D -m 755 $(TARGET)/release/libfobs_c.so $(DESTDIR)$(PREFIX)/lib/libfobs_c.so
	install -D -m 644 bindings/c/include/fobs.h $(DESTDIR)$(PREFIX)/include/fobs.h
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e "s|@VERSION@|$$(sed -n '/workspace.package/,/version/s/^version = "\(.*\)"/\1/p' Cargo.toml)|" \
		bindings/c/fobs.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/fobs.pc

.PHONY: globus-deb
globus-deb: ## build a Debian package of the Globus XIO driver for this architecture, in target/dist (docs/globus.md)
	CARGO=$(CARGO) scripts/deb-globus.sh

.PHONY: bench-python
bench-python: build lab ## measure a session beside the command, and users of fsspec beside SFTP, over an emulated path (root; after make test)
	$(TARGET)/python-venv/bin/pip install --quiet -r bindings/python/bench/requirements.txt
	$(TARGET)/python-venv/bin/python bindings/python/bench/beside_command.py --lab $(LAB) --fobs $(FOBS)
	$(TARGET)/python-venv/bin/python bindings/python/bench/users.py --lab $(LAB) --fobs $(FOBS)

.PHONY: needs
needs:
	scripts/install-needs.sh

.PHONY: install
install: build ## install the binary, man pages and completions under PREFIX (default /usr/local)
	install -D -m 755 $(FOBS) $(DESTDIR)$(PREFIX)/bin/fobs
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	$(FOBS) man --out $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(FOBS) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/fobs
	install -d $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	$(FOBS) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_fobs
	install -d $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(FOBS) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/fobs.fish

.PHONY: clean
clean: ## remove build outputs
	$(CARGO) clean
