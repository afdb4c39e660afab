"""Learned Motion Matching (Holden 2020): compressor, decompressor, stepper, projector in torch; one ONNX file out."""
