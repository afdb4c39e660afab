"""Training of the step network from motion capture and procedural motion: writes one ONNX file."""
