"""Train the four networks of Learned Motion Matching (Holden 2020) in torch, and write them to one ONNX file.

The networks are called compressor, decompressor, stepper and projector.
"""
