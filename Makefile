# Every target installs its requirements. Begin with `make demo` and `make test`.

PYTHON ?= python3
# Where pip looks for PyTorch besides its usual index: one with CPU builds saves gigabytes on a machine without a GPU.
TORCH_INDEX ?=
# The extra of pyproject.toml with the libraries of the demo's tasks: torch, or numpy for tasks that need no PyTorch.
LIBRARIES ?= torch
BIN := .venv/bin
SOURCES := hpc_board tests scripts tasks task_starter examples

# Tests start some thousand processes and are collected several times, each of which would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

.PHONY: demo
demo: .venv/.demo ## three ranked submissions on this machine, in the folder demo: no root, no GPU, no Slurm needed
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/demo.sh

# The judge measures times, so tests that depend on them run alone on the machine. Tests that wait for daemons and
# terminals may time out on a busy machine: a failed test runs once more, alone, and has to pass then. Two processors
# are busy with seven workers, since a test waits for Slurm and other processes for more than half of its time.
# tests/conftest.py has the order of the files. The quiet tests come first, since one process compiles all modules then,
# which seven workers would do each for itself. A disk's journal costs tests with a database a quarter of their processor
# time, so the files of root's tests are in memory; those of a failed test are on the disk the second time.
.PHONY: test
test: .venv/.dev slurm browser ## every test that this machine can run, and a count of the others
	@status=0 beside=0; \
	$(BIN)/pytest --in-memory --cache-clear -m quiet tests || status=$$?; \
	[ $$status -le 1 ] || exit $$status; \
	$(BESIDE) & \
	$(BIN)/pytest --in-memory -m "not quiet" --numprocesses 7 --dist loadfile --no-loadscope-reorder tests || status=$$?; \
	wait $$! || beside=1; \
	[ $$status = 1 ] || exit $$((status | beside)); \
	echo "The tests that failed, once more:"; \
	$(BIN)/pytest -v --last-failed --last-failed-no-failures none --maxfail 1 --snapshot-warn-unused tests || beside=1; \
	exit $$beside

# Three workers for each of two processors: a test waits for the disk, and for times and processes to end.
.PHONY: test-fast
test-fast: .venv/.dev ## the tests of one and a half minutes: no daemons, no terminals, no PyTorch
	$(BIN)/pytest --in-memory -q -m "not slow and not torch" --numprocesses 6 --dist worksteal tests/unit

# A command that `make test` runs beside the tests that do not measure: most of the checks take one processor.
BESIDE := :
LINT_LOG := .venv/lint.log

.PHONY: check
check: BESIDE = { nice $(MAKE) --no-print-directory lint >$(LINT_LOG) 2>&1 || { cat $(LINT_LOG); false; }; }
check: test ## everything that CI runs

.PHONY: lint
lint: .venv/.dev ## format, lint, types, import contracts
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: fix
fix: .venv/.dev ## format, and apply ruff's fixes
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

.PHONY: docs
docs: .venv/.dev ## the pages and the JSON Schema made from the code, the man page and the completion scripts
	$(BIN)/python scripts/commands_page.py > docs/commands.md
	$(BIN)/python scripts/settings_page.py
	$(BIN)/python scripts/keys_page.py
	$(BIN)/python scripts/data_page.py
	$(BIN)/python scripts/json_page.py > docs/json.md
	$(BIN)/python scripts/json_schema.py > docs/schema.json
	$(BIN)/python scripts/shell_files.py

# `+cpu` and the like name a build, not a release.
.PHONY: constraints
constraints: .venv/.dev ## constraints.txt: the installed release of every dependency
	{ grep '^#' constraints.txt; $(BIN)/pip list --format=freeze --exclude-editable --exclude pip --exclude setuptools \
		--disable-pip-version-check | sed 's/+.*//'; } > build.constraints && mv build.constraints constraints.txt

.PHONY: site
site: .venv/.dev ## the manual as a site in build/site, without network; a dead link fails
	$(BIN)/zensical build --strict --clean

.PHONY: corpus
corpus: .venv/.dev ## CHECKOUT=FOLDER of GPU MODE's reference-kernels: each task folder, read, judged, and listed
	$(BIN)/python scripts/corpus.py "$(CHECKOUT)" --judge

.PHONY: recording
recording: .venv/.demo ## docs/recordings/app.cast: the app on a board of this machine, in tmux (a minute)
	$(BIN)/python scripts/recording.py

.PHONY: recording-evening
recording-evening: .venv/.dev slurm ## docs/recordings/evening.cast: the app on a real Slurm, as tests/e2e/test_evening.py drives it (a minute)
	HPC_BOARD_CAPTURES=build/evening $(BIN)/pytest -q tests/e2e/test_evening.py
	cp build/evening/recording.cast docs/recordings/evening.cast

.PHONY: recording-hold
recording-hold: .venv/.dev slurm ## docs/recordings/hold.cast: a held GPU on a real Slurm, as tests/e2e/test_held_session.py drives it (a minute)
	HPC_BOARD_CAPTURES=build/hold $(BIN)/pytest -q tests/e2e/test_held_session.py
	cp build/hold/recording.cast docs/recordings/hold.cast

.PHONY: bench-startup
bench-startup: .venv/.dev ## modules and time of cheap commands, beside a bare Python
	$(BIN)/python scripts/bench_startup.py

.PHONY: bench-judge
bench-judge: .venv/.dev ## seconds of a judged run, beside KernelBot's
	$(BIN)/python scripts/bench_judge.py

.PHONY: bench-honest
bench-honest: .venv/.dev ## scores of 300 ranked runs of honest kernels, beside no, one and two busy processes (hours)
	$(BIN)/python scripts/bench_honest.py

.PHONY: bench-power
bench-power: .venv/.dev ## differences that `compare` finds, by the noise of the machine (half a minute)
	$(BIN)/python scripts/bench_power.py

.PHONY: bench-lies
bench-lies: .venv/.dev ## scores of lies about times around the examples of each task (an hour)
	$(BIN)/python scripts/bench_lies.py

.PHONY: bench-slurm
bench-slurm: .venv/.submitit slurm ## on a real Slurm: questions to its controller, time to send a run, delay of results
	$(BIN)/python scripts/bench_slurm.py

.PHONY: bench-runner
bench-runner: .venv/.dev slurm ## runs at held GPUs and other runners, here and on a real Slurm, beside the same runs as jobs of their own (half an hour)
	$(BIN)/python scripts/bench_runner.py

.PHONY: bench-loop
bench-loop: .venv/.dev ## a loop of submissions: bytes of an answer, runs an hour, a hang, an agent's tokens, gains denied (15 minutes)
	$(BIN)/python scripts/bench_loop.py

.PHONY: bench-store
bench-store: .venv/.dev ## the commands' questions to the database of a board with up to 100,000 runs (5 minutes, 1 GB)
	$(BIN)/python scripts/bench_store.py

.PHONY: bench-service
bench-service: .venv/.dev slurm ## a served board beside one of files: commands, 200 clients, 500 waiting ones (root)
	$(BIN)/python scripts/bench_service.py

# posting and harlequin, for comparison, in the releases of the committed page; each has a Textual of its own.
TUI_APPS := $(HOME)/.cache/hpc-board-bench-tui

.PHONY: bench-tui
bench-tui: .venv/.dev $(TUI_APPS)/.posting $(TUI_APPS)/.harlequin ## the app: first paint beside other Textual apps, from a key to the screen, frames lost, memory, bytes on a slow line
	$(BIN)/python scripts/bench_tui.py $(TUI_APPS)
	$(BIN)/python scripts/bench_line.py $(TUI_APPS)

# posting's Textual crashes with a newer tree-sitter.
$(TUI_APPS)/.posting: PACKAGES := posting==2.11.1 'tree-sitter<0.26'
$(TUI_APPS)/.harlequin: PACKAGES := harlequin==2.17.0
$(TUI_APPS)/.%: .venv/.python
	$(PYTHON) -m venv $(TUI_APPS)/$*
	$(TUI_APPS)/$*/bin/pip install --quiet --disable-pip-version-check $(PACKAGES)
	@touch $@

.PHONY: gpu-check-bundle
gpu-check-bundle: .venv/.dev ## build/gpu-check.pyz: the requirements of `make gpu-check` on a GPU node, in one file
	$(BIN)/python scripts/gpu_check/bundle.py build/gpu-check.pyz

# The target needs no .venv and no network: a GPU node seldom has either.
.PHONY: gpu-check
gpu-check: ## on a node with a GPU and PyTorch, nine minutes: probe, other clocks, cheats, languages -> docs/measurements/
	@test -e build/gpu-check.pyz || { \
		echo "build/gpu-check.pyz is missing: make it with \`make gpu-check-bundle\` where packages can be installed"; exit 2; }
	$(PYTHON) build/gpu-check.pyz

.PHONY: suite-table
suite-table: .venv/.dev ## the verdict of each known cheat, with and without each defence
	$(BIN)/python scripts/suite_table.py

# A real Slurm and an SSH server for the tests, installed from the distribution if root may do so; without them their
# tests skip.
.PHONY: slurm
slurm:
	@if command -v slurmctld >/dev/null && command -v munged >/dev/null && command -v tmux >/dev/null && command -v sshd >/dev/null && command -v sudo >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Slurm, munge, tmux, an SSH server and sudo for the tests"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			slurm-wlm slurm-wlm-basic-plugins munge tmux openssh-server openssh-client sudo >/dev/null; \
	else echo "no Slurm or no SSH server here, and only root on Debian or Ubuntu can install them: their tests are left out and counted"; fi

# Separate from `make slurm`: if the distribution starts services on installation, a database server keeps running.
.PHONY: slurm-accounting
slurm-accounting: slurm ## for tests: the daemons of Slurm's accounting, slurmdbd and MariaDB (root, 20 seconds)
	@if command -v slurmdbd >/dev/null && command -v mariadbd >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing slurmdbd and MariaDB for the tests"; \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurmdbd mariadb-server >/dev/null || \
			echo "they could not be installed: their tests are left out and counted"; \
	else echo "only root on Debian or Ubuntu can install slurmdbd and MariaDB: their tests are left out and counted"; fi

# A browser for the tests of the exported web page, which skip without one.
.PHONY: browser
browser:
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && grep -qs '^ID=debian' /etc/os-release; then \
		echo "installing Chromium for the tests"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null || \
			echo "Chromium could not be installed: its tests are left out and counted"; \
	else echo "no Chromium here, and only root on Debian can install it: its tests are left out and counted"; fi

# Another release of Slurm with pyslurm, in a folder outside of the checkout; its tests skip without it.
.PHONY: slurm-chroot
slurm-chroot: .venv/.dev ## for tests: the Slurm of a newer Debian, pyslurm and Apptainer, in ~/.cache (root, 4 minutes, 1.5 GB)
	@if ! command -v mmdebstrap >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing mmdebstrap"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null; \
	fi
	$(BIN)/python -m tests.slurm.chroot

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "hpc-board needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	@touch $@

.venv/.demo: .venv/.python pyproject.toml constraints.txt
	@bash scripts/install.sh $(LIBRARIES) $(TORCH_INDEX)
	@touch $@

# submitit, for comparison, in the release of the committed page.
.venv/.submitit: .venv/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check submitit==1.5.4
	@touch $@

.venv/.dev: .venv/.python pyproject.toml constraints.txt
	@bash scripts/install.sh dev,torch $(TORCH_INDEX)
	@touch $@ .venv/.demo
