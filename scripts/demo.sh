#!/usr/bin/env bash
# Three ranked submissions of two tasks through the embedded scheduler, then both boards.
set -euo pipefail
# With a CDPATH, `cd` may end in another folder of the same name.
unset CDPATH
cd -- "$(dirname -- "$0")/.."
checkout=$PWD
data_home=${XDG_DATA_HOME:-${HOME:-~}/.local/share}

# The demo has a board of its own, apart from the user's own runs. The settings in the current folder name it, so the
# hints of hpc-board are valid in that folder without --config.
elsewhere=${HPC_BOARD_CONFIG:-}
unset HPC_BOARD_CONFIG
mkdir -p demo
cd ./demo
settings='# The settings of `make demo`: this machine, the tasks that ship, and a board beside this file.
board: board'
if [[ ! -e hpc-board.yaml && ! -L hpc-board.yaml ]]; then
    printf '%s\n' "$settings" >hpc-board.yaml
elif [[ ! -f hpc-board.yaml || $(<hpc-board.yaml) != "$settings" ]]; then
    echo "$PWD/hpc-board.yaml is not what this demo writes, and stays as it is." >&2
    echo "Move the folder $PWD away, then start the demo again." >&2
    exit 2
fi

show() {
    printf '\n$ hpc-board %s\n' "$*"
    hpc-board "$@"
}

# Two tasks that need PyTorch, or without it two that need only NumPy.
if "$checkout/.venv/bin/python" -c 'import importlib.util as util, sys; sys.exit(not util.find_spec("torch"))'; then
    first=vectoradd_py second=softmax_py starter='template softmax_py -o mine.py            '
else
    first=heat second=spmv starter='template heat --language Python -o mine.py'
fi

echo "hpc-board runs three example kernels on this machine's CPU and ranks them (a minute or two)."
printf '\n$ cd demo\n'
show submit "../examples/$first/plain.py" --gpu CPU --mode ranked --wait
show submit "../examples/$first/faster.py" --gpu CPU --mode ranked --wait
show submit "../examples/$second/faster.py" --gpu CPU --mode ranked --wait
show show "$first"
show show "$second"
show show "$first" --own

cat <<NEXT

Next steps, in $checkout:
${elsewhere:+  unset HPC_BOARD_CONFIG                                it names other settings, which would win
}  source .venv/bin/activate                             put hpc-board on your PATH

In the folder demo, and only there, every command is about the demo's board:
  cd demo
  hpc-board                                             the terminal app
  hpc-board runs                                        the demo's runs
  hpc-board run 1                                       the report of the first one
  cd ..

Everywhere else you have a board of your own, whose runs have numbers of their own:
  hpc-board list                                        the tasks
  hpc-board $starter  a starter to edit
  hpc-board submit mine.py --gpu CPU --wait             test it
  hpc-board runs                                        your runs

The demo's board is demo/board; remove the folder demo to start it over. Without settings, your own board is
$data_home/hpc-board. docs/tutorial.md leads from an empty file to a rank.
NEXT
