"""Training of the facing network from motion capture: writes an ONNX file and a table of errors in degrees."""
