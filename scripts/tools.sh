#!/usr/bin/env bash
# Makes sure that what the tests need is there: installs it when root or in CI, otherwise prints the command.
#   tools.sh test   emulator and disassembler for the arm64 tests; Mesa's software Vulkan, its validation layer, the shader compiler and validator for the GPU's tests;
#                   for those of the web page a browser, and Node 20 or newer with npm, 130 MB, asked of nobody but CI;
#                   the shells that completion is for; what checks the systemd unit; Python, in which programs are evaluated;
#                   for those of the Windows binary wine and an X server without a screen: 105 MB, asked of nobody but CI
set -euo pipefail
need=()
command -v qemu-aarch64 >/dev/null || command -v qemu-aarch64-static >/dev/null || need+=(qemu-user)
command -v aarch64-linux-gnu-objdump >/dev/null || need+=(binutils-aarch64-linux-gnu)
have() { compgen -G "$1" >/dev/null; }
have '/usr/share/vulkan/icd.d/lvp_icd*.json' || need+=(mesa-vulkan-drivers)
have '/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json' || need+=(vulkan-validationlayers)
have '/usr/lib/*/libvulkan.so.1' || need+=(libvulkan1)
have /usr/share/vulkan/registry/vk.xml || need+=(libvulkan-dev)
command -v glslangValidator >/dev/null || need+=(glslang-tools)
command -v spirv-val >/dev/null || need+=(spirv-tools)
command -v python3 >/dev/null || need+=(python3)
command -v systemd-analyze >/dev/null || need+=(systemd)
for shell in bash zsh fish; do
	command -v "$shell" >/dev/null || need+=("$shell")
done
if [ -n "${CI:-}" ]; then
	command -v wine64 >/dev/null || command -v wine >/dev/null || [ -x /usr/lib/wine/wine64 ] || need+=(wine64)
	command -v chromium >/dev/null || need+=(chromium)
	command -v npm >/dev/null || need+=(nodejs npm)
	command -v Xvfb >/dev/null || need+=(xvfb)
fi
[ ${#need[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
	echo "some tests are skipped without: ${need[*]}" >&2
	exit 0
fi
if [ "$(id -u)" = 0 ] || [ -n "${CI:-}" ]; then
	sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
	$sudo apt-get update -qq
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
else
	echo "some tests are skipped; to run them all: sudo apt-get install ${need[*]}" >&2
fi
