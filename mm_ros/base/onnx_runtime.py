"""Import onnxruntime without its telemetry. Modules of mm_ros import onnxruntime only from `onnx_runtime.py`.

The Linux wheel of onnxruntime (seen with version 1.31.1) sends usage data over HTTPS and stores a device identifier in
~/.cache/Microsoft. An environment variable that is set before the import prevents the telemetry. The
function `disable_telemetry_events` alone would be too late, because onnxruntime sends its first data during the import.
"""

import os

__all__ = ["ort"]

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort

ort.disable_telemetry_events()
