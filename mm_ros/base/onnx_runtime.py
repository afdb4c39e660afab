"""onnxruntime without its telemetry. All other modules import `ort` from here (an import contract checks this).

The Linux wheel (seen with 1.31.1) sends events over HTTPS and keeps a device identifier in ~/.cache/Microsoft. The
environment variable must be set before the library is loaded; `disable_telemetry_events` alone would be too late,
because by then the library has sent its first event.
"""

import os

__all__ = ["ort"]

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort

ort.disable_telemetry_events()
