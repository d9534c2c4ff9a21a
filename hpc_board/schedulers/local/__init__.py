"""The embedded scheduler: batch scripts under bash on this machine, one at a time on each of its devices."""
