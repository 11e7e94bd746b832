# Every target does first what it needs; nothing is rebuilt while its sources are unchanged.
#
#   make setup   install the Debian packages and npm modules that are missing, and dist/tools
#   make build   dist/vmapp (the CLI), dist/lib/index.js (the library for Node), dist/tools
#   make image   dist/image/x64 (kernel, initramfs, runtime, base image, manifest), and dist/image/demo-x64 with apps
#   make run     start a VM and end at its prompt
#   make test    all tests        make check   types, lint, import rules, unused code
#   make bench   measurements beside peers        make fuzz   fuzzers at full length
#   make clean   remove all that was built or fetched (node_modules stays)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory
# mkfs.ext4 and depmod stand where only root looks by default.
export PATH := $(PATH):/usr/sbin:/sbin

ARCH ?= x64
BIN := node_modules/.bin
BUN := $(BIN)/bun
CACHE := .cache
WORK := $(CACHE)/image/$(ARCH)
IMAGE := dist/image/$(ARCH)
DEMO := dist/image/demo-$(ARCH)
STEP := $(BUN) image/build.ts
# Keeps a second make of this tree waiting, for whom there is then nothing left to do.
ALONE := image/alone.sh Makefile

sources = $(shell find $(1) -name '*.ts' 2>/dev/null)
GUEST_SOURCES := $(call sources,init agent sys protocol)
HOST_SOURCES := $(call sources,host-client protocol image sys)
# npm writes this file when it has installed everything.
NPM := node_modules/.package-lock.json
# What every step of the image build goes through.
STEP_SOURCES := image/build.ts image/arch.ts image/command.ts $(NPM)
PACKAGES := $(WORK)/packages.json

.PHONY: setup setup-system setup-bench setup-files build build-files image image-files run test check bench fuzz clean

setup:
	@$(ALONE) $(MAKE) setup-files

setup-files: $(NPM) dist/tools/vhost-device-vsock | setup-system
	@:

setup-system:
	@image/setup.sh

setup-bench:
	@image/setup.sh bench

$(NPM): package-lock.json | setup-system
	npm ci
	@touch $@

# --- the image ---------------------------------------------------------------------------------------------------

image:
	@$(ALONE) $(MAKE) image-files

image-files: $(IMAGE)/manifest.json $(DEMO)/manifest.json | setup-system
	@:

# The package index and the packages are fetched once; `make clean` forgets them.
$(PACKAGES): image/packages.ts image/debian.ts image/arch.ts | $(NPM)
	@$(STEP) packages $(ARCH)

$(IMAGE)/kernel: $(PACKAGES) image/kernel.ts $(STEP_SOURCES)
	@$(STEP) kernel $(ARCH)

$(IMAGE)/initramfs: $(PACKAGES) image/stage0/init image/kernel.ts image/modules.ts image/reproducible.ts $(STEP_SOURCES)
	@$(STEP) initramfs $(ARCH)

$(IMAGE)/base.squashfs: $(PACKAGES) image/base.ts image/reproducible.ts $(STEP_SOURCES)
	@$(STEP) base $(ARCH)

$(WORK)/bun: $(STEP_SOURCES)
	@$(STEP) interpreter $(ARCH)

$(WORK)/pty.node: $(STEP_SOURCES)
	@$(STEP) pty $(ARCH)

$(WORK)/vmapp-init: $(WORK)/bun $(GUEST_SOURCES) package.json image/runtime.ts
	@$(STEP) init $(ARCH)

$(IMAGE)/runtime.squashfs: $(WORK)/vmapp-init $(WORK)/pty.node $(PACKAGES) image/stage0/udhcpc image/runtime.ts \
		image/reproducible.ts
	@$(STEP) runtime $(ARCH)

$(IMAGE)/manifest.json: $(addprefix $(IMAGE)/,kernel initramfs base.squashfs runtime.squashfs) image/manifest.ts
	@$(STEP) manifest $(ARCH)

# The image with the example apps in it.
$(DEMO)/manifest.json: $(IMAGE)/manifest.json $(call sources,sdk protocol/bridge) $(wildcard examples/* examples/*/*) \
		image/demo.ts
	@$(STEP) demo $(ARCH)

# --- the host ----------------------------------------------------------------------------------------------------

build:
	@$(ALONE) $(MAKE) build-files

build-files: dist/vmapp dist/lib/index.js dist/sdk/index.js dist/tools/vhost-device-vsock | setup-system
	@:

# In chunks, of which a command loads its own; and without the settings and variables that Bun would else take from the
# directory where vmapp is run. Renamed into place, so that it can be rebuilt while the former one runs.
dist/vmapp: $(HOST_SOURCES) package.json $(NPM)
	@mkdir -p $(@D)
	$(BUN) build --compile --minify --bytecode --format=esm --splitting \
		--no-compile-autoload-dotenv --no-compile-autoload-bunfig --outfile=$@.partial host-client/cli/main.ts
	@mv $@.partial $@

# In chunks, so that Node never sees the one that imports bun:ffi.
dist/lib/index.js: $(HOST_SOURCES) package.json $(NPM)
	@rm -rf $(@D)
	$(BUN) build --target=node --splitting --external=bun:ffi --outdir=$(@D) host-client/index.ts

dist/sdk/index.js: $(call sources,sdk protocol/bridge) package.json $(NPM)
	$(BUN) build --target=node --outfile=$@ sdk/index.ts

dist/tools/vhost-device-vsock: image/packages.ts image/debian.ts | $(NPM)
	@$(STEP) tools

# --- using it ----------------------------------------------------------------------------------------------------

run: build image | setup-system
	@exec dist/vmapp run --rm

test: build image | setup-system
	$(BUN) test/run.ts

check: $(NPM)
	$(BIN)/tsc --noEmit
	$(BIN)/biome check --error-on-warnings .
	$(BIN)/depcruise --config .dependency-cruiser.cjs agent host-client image init protocol sdk sys test $(wildcard examples)
	$(BIN)/knip

bench: build image | setup-bench
	$(BUN) test/bench/main.ts

fuzz: build image | setup-system
	$(BUN) test/run.ts fuzz --full

clean:
	rm -rf dist $(CACHE)
