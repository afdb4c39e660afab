"""Train the step network from motion capture and procedural motion, and write it to an ONNX file."""
