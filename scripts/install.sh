#!/usr/bin/env bash
# Install this checkout with extras into its .venv: scripts/install.sh EXTRAS [INDEX]
# INDEX is one for pip to ask for PyTorch, besides its usual one. Where there is no NVIDIA driver, PyTorch's build for the
# CPU is installed if an index has it: the other one is gigabytes.
# Before bash 4.4 an empty array is an unset variable.
set -euo pipefail
cd "$(dirname -- "$0")/.."
extras=$1
indexes=(${2:+--extra-index-url "$2"})
build=()

if [[ ,$extras, = *,torch,* ]] && ! .venv/bin/python -c 'import torch' 2>/dev/null; then
    echo "Installing the requirements in .venv; PyTorch is the largest download."
    if [[ ! -e /proc/driver/nvidia/version ]]; then
        release=$(sed -n 's/^torch==//p' constraints.txt)
        offered=$(.venv/bin/pip index versions torch ${indexes[@]+"${indexes[@]}"} 2>/dev/null || true)
        if [[ " ${offered//,/ } " = *" $release+cpu "* ]]; then
            build=("torch==$release+cpu")
        elif [[ ${#indexes[@]} = 0 ]]; then
            echo "There is no NVIDIA driver here: TORCH_INDEX=URL with an index of CPU builds would fetch some 200 MB, not" \
                "gigabytes, and \`make demo LIBRARIES=numpy\` needs no PyTorch (README)."
        fi
    fi
fi
.venv/bin/pip install --disable-pip-version-check ${indexes[@]+"${indexes[@]}"} -c constraints.txt -e ".[$extras]" \
    ${build[@]+"${build[@]}"}
