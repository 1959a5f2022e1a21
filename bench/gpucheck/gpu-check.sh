#!/bin/sh
# Tries this machine's GPU: gpu-check --help. It lies in a bundle of scripts/gpu-check.sh, beside what it runs. The engine finds
# the bundle's loader where the system has none.
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/gpucheck" --tests "$here/device.test" --engine "$here/powerinfer" "$@"
