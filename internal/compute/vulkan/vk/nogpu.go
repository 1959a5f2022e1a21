//go:build nogpu

package vk

import "errors"

// Supported says whether the binary can load Vulkan at all.
const Supported = false

func open(string) (uintptr, error) { return 0, errors.New("built without GPU support") }

func symbol(uintptr, string) (proc, error) { return 0, errors.New("built without GPU support") }

func (p proc) call(...uintptr) uintptr { panic("vk: built without GPU support") }

func (p proc) with([]uintptr) uintptr { panic("vk: built without GPU support") }

func callback(func(severity, kind uint32, data *DebugUtilsMessengerCallbackData, user *messageSink) uintptr) uintptr {
	panic("vk: built without GPU support")
}
