//go:build !nogpu && !windows

package vk

import "github.com/ebitengine/purego"

func open(name string) (uintptr, error) {
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func symbol(library uintptr, name string) (proc, error) {
	p, err := purego.Dlsym(library, name)
	return proc(p), err
}
