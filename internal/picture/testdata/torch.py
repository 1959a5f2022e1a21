#!/usr/bin/env python3
"""Writes torch.json: a grid and what torch's F.interpolate makes of it. Debian's python3-torch: python3 torch.py"""
import importlib.metadata, itertools, json, math, sys

sys.path.pop(0)  # this file's folder, or "import torch" would be this file
import torch

height, width, n = 5, 7, 2
source = [round(math.sin(1.7 * i) + 0.1 * (i % 5), 4) for i in range(height * width * n)]
grid = torch.tensor(source).reshape(1, height, width, n).permute(0, 3, 1, 2)
cases = []
for mode, align, antialias, size in itertools.product(["bilinear", "bicubic"], [False, True], [False, True], [(3, 4), (9, 11), (2, 15), (1, 1), (5, 7)]):
    out = torch.nn.functional.interpolate(grid, size=size, mode=mode, align_corners=align, antialias=antialias)
    cases.append({"mode": mode, "align": align, "antialias": antialias, "size": size,
                  "values": [round(v, 6) for v in out[0].permute(1, 2, 0).reshape(-1).tolist()]})
with open("torch.json", "w") as file:
    json.dump({"by": f"torch {torch.__version__}, torch.py beside this file", "height": height, "width": width, "n": n,
               "source": source, "cases": cases}, file)
    file.write("\n")
