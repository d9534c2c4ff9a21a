-- hpc-board for all users of a cluster: docs/clusters.md says how to install what this loads.
local root = pathJoin("/opt/apps/hpc-board", myModuleVersion())

help([[
hpc-board ranks GPU kernels on this cluster: `hpc-board` opens the app, `man hpc-board` lists the commands.
]])
whatis("Name: hpc-board")
whatis("Version: " .. myModuleVersion())
whatis("Description: GPU-kernel leaderboards on a Slurm cluster")

-- A folder with this one program: jobs inherit PATH, and must not find the Python that it runs under.
prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(root, "venv/share/man"))
-- Unset, it means these two folders, which programs would lose with a value without them.
if (os.getenv("XDG_DATA_DIRS") or "") == "" then
  append_path("XDG_DATA_DIRS", "/usr/local/share:/usr/share")
end
prepend_path("XDG_DATA_DIRS", pathJoin(root, "venv/share"))
if myShellName() == "bash" then
  execute({ cmd = "source " .. pathJoin(root, "venv/share/bash-completion/completions/hpc-board"), modeA = { "load" } })
end
