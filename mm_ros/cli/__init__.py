"""The command `mm_ros`. Each verb of the command, for example `replay`, has its own file."""
