"""Training of the facing network: motion capture in, one ONNX file and a table of degrees out."""
