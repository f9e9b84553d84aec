# `make` sets up and builds; `make help` lists the rest. CMake and Ninja do the work: see CMakePresets.json.

BUILD := build/release
TITAN := $(BUILD)/bin/titan
# ON stops at a warning in our own code; a newer compiler's new warnings should not stop a user.
WERROR ?= OFF
PREFIX ?= /usr/local
DEMO := outputs/demo

export TORCH

.PHONY: all help setup setup-tests configure build demo test sanitize bench install clean

all: build

help:
	@echo "make                  set up and build $(TITAN)"
	@echo "make demo             build, train a small model on the bundled text, write it, continue a prompt"
	@echo "make test             build and run all tests"
	@echo "make sanitize         build and run the kernel simulator's tests under the sanitizers"
	@echo "make bench            build and run the benches"
	@echo "make install PREFIX=  copy the program, its libraries and headers"
	@echo "make setup            only install what building needs"
	@echo "make clean            remove build/"
	@echo "TORCH=DIR             use the torch or libtorch in DIR;  TORCH=python  the interpreter's own"

setup:
	@tools/setup.sh

setup-tests:
	@tools/setup.sh --oracles

configure: setup
	@torch=$$(cat build/torch_dir); \
	want="$$torch $(WERROR)"; \
	if [ ! -f $(BUILD)/build.ninja ] || [ "$$(cat $(BUILD)/configured_for 2>/dev/null)" != "$$want" ]; then \
	  cmake --preset release -DTITAN_TORCH="$$torch" -DTITAN_WERROR=$(WERROR) >build/configure.log 2>&1 \
	    || { cat build/configure.log; exit 1; }; \
	  echo "$$want" >$(BUILD)/configured_for; \
	fi

build: configure
	@cmake --build $(BUILD) --target titan_program

demo: build
	@rm -rf $(DEMO)
	$(TITAN) train --module qwen3 --config qwen3_demo --dump_folder $(DEMO)
	$(TITAN) generate --assets $$(ls -d $(DEMO)/checkpoint/step-* | tail -n 1) --prompt "In the beginning" --temperature 0.8 --top-k 40 --seed 1

test: setup-tests configure
	@cmake --build $(BUILD)
	@ctest --test-dir $(BUILD) --output-on-failure -j $$(nproc)

sanitize: setup-tests configure
	@cmake --build $(BUILD) --target unit_nki_sanitized
	@$(BUILD)/bin/unit_nki_sanitized

# Titan beside its peers in the same run.
bench: setup-tests build
	@.venv/bin/python bench/ops.py $(BUILD)/lib/libtitan.so
	@.venv/bin/python bench/tokenizer.py $(TITAN)
	@.venv/bin/python bench/training.py --titan $(TITAN)
	@.venv/bin/python bench/training.py --titan $(TITAN) --ranks 2
	@.venv/bin/python bench/many_ranks.py --titan $(TITAN)
	@.venv/bin/python bench/neuron_step.py --titan $(TITAN)
	@cmake --build $(BUILD) --target bench_collectives
	@.venv/bin/python bench/collectives.py $(BUILD)/bin/bench_collectives
	@cmake --build $(BUILD) --target bench_nki bench_neuron_ops
	@$(BUILD)/bin/bench_nki
	@TITAN_NEURON_STATE_DIR=build/bench_neuron TORCH_NEURONX_NEFF_DISABLE_CACHE=1 OMP_NUM_THREADS=1 \
	  $(BUILD)/bin/bench_neuron_ops

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build
