"""`python -m hpc_board` is `hpc-board`."""

from hpc_board.cli.main import main

if __name__ == "__main__":
    main()
