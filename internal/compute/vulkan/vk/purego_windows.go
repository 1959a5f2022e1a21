//go:build !nogpu

package vk

import "golang.org/x/sys/windows"

// open looks in the system's folder only: a loader next to the binary is not the driver's.
func open(name string) (uintptr, error) {
	h, err := windows.LoadLibraryEx(name, 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	return uintptr(h), err
}

func symbol(library uintptr, name string) (proc, error) {
	p, err := windows.GetProcAddress(windows.Handle(library), name)
	return proc(p), err
}
