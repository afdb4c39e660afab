"""The command `mm_ros`. Each verb of the command has its own file."""
