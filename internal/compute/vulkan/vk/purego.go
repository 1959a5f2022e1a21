//go:build !nogpu

package vk

import "github.com/ebitengine/purego"

// Supported says whether the binary can load Vulkan at all.
const Supported = true

// call calls p. Pointers converted in the argument list stay alive and in place until it returns.
//
//go:uintptrescapes
func (p proc) call(args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(uintptr(p), args...)
	return r
}

// with calls p with arguments whose pointers, if any, are to pinned memory.
func (p proc) with(args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(uintptr(p), args...)
	return r
}

// callback returns a C function that calls f; it lives as long as the process.
func callback(f func(severity, kind uint32, data *DebugUtilsMessengerCallbackData, user *messageSink) uintptr) uintptr {
	return purego.NewCallback(f)
}
