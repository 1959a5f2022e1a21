#!/bin/sh
# Tries this machine's GPU: gpu-check --help. It lies in a bundle of scripts/gpu-check.sh, beside what it runs.
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/sbin:/usr/sbin
# The loader of the bundle serves where the system has none.
if [ -d "$here/lib" ] && ! ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; then
	LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/lib
	export LD_LIBRARY_PATH
fi
# Containers may have NVIDIA's driver in a folder where the loader does not look.
nvidia=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
if [ -z "$VK_DRIVER_FILES$VK_ICD_FILENAMES" ] && [ -e "$nvidia" ] && ! ls /usr/share/vulkan/icd.d/nvidia*.json /etc/vulkan/icd.d/nvidia*.json >/dev/null 2>&1; then
	VK_DRIVER_FILES=$nvidia
	export VK_DRIVER_FILES
fi
exec "$here/gpucheck" --tests "$here/device.test" "$@"
