"""Where matched poses come from."""
