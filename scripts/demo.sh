#!/usr/bin/env bash
# Three ranked submissions of two tasks through the embedded scheduler, then both boards.
set -euo pipefail
cd "$(dirname "$0")/.."

show() {
    printf '\n$ hpc-board %s\n' "$*"
    hpc-board "$@"
}

echo "hpc-board runs three example kernels on this machine's CPU and ranks them (about a minute)."
show submit examples/vectoradd_py/plain.py --gpu CPU --mode ranked --wait
show submit examples/vectoradd_py/faster.py --gpu CPU --mode ranked --wait
show submit examples/softmax_py/faster.py --gpu CPU --mode ranked --wait
show show vectoradd_py
show show softmax_py
show show-personal vectoradd_py

cat <<'NEXT'

What to type next:
  source .venv/bin/activate                    put hpc-board on your PATH
  hpc-board                                    the terminal app
  hpc-board list                               the tasks
  hpc-board template softmax_py -o mine.py     a starter to edit; then: hpc-board submit mine.py --wait
  hpc-board run 1                              the report of a run

The board lies in ${XDG_DATA_HOME:-~/.local/share}/hpc-board; remove that folder to start over.
NEXT
