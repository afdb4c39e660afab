"""Train the four networks of Learned Motion Matching (Holden 2020) in torch, and write them to one ONNX file.

Learned Motion Matching calls the four networks compressor, decompressor, stepper and projector.
"""
