// Package vk is a binding to the compute part of Vulkan. It opens the loader at run time, without cgo.
//
// Structures and constants are those of the registry; a test compares them. The driver reads a call's arguments during
// the call. The caller must pin Go memory to which structures point (runtime.Pinner).
// (runtime.Pinner).
//
// Source: the Vulkan 1.3 specification, and its registry vk.xml.
package vk

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unsafe"
)

// proc is the address of a C function.
type proc uintptr

// CString is s as C takes it, in Go memory.
func CString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// GoString returns the text in a structure's array.
func GoString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// text returns the C string at p.
func text(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

func ptr[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

// result returns a call's VkResult as an error: nil for success.
func result(r uintptr) error {
	if r := Result(int32(r)); r != Success {
		return r
	}
	return nil
}

// Library is the loader. It stays loaded as long as the process lives: drivers do not survive being unloaded.
type Library struct {
	getInstanceProcAddr proc
	fn                  struct {
		CreateInstance                       proc
		EnumerateInstanceVersion             proc
		EnumerateInstanceLayerProperties     proc
		EnumerateInstanceExtensionProperties proc
	}
}

// loaders returns the system's names of the loader. macOS gets whole paths, because a bare name would be looked for in
// the current folder, and not in any of these; DYLD_LIBRARY_PATH, as the SDK sets it, comes before them. The loader
// finds drivers; MoltenVK also works without it.
func loaders() []string {
	switch runtime.GOOS {
	case "windows":
		return []string{"vulkan-1.dll"}
	case "darwin":
		var paths []string
		for _, name := range []string{"libvulkan.1.dylib", "libMoltenVK.dylib"} {
			paths = append(paths, "/opt/homebrew/lib/"+name, "/usr/local/lib/"+name) // Homebrew's; the SDK's, and Homebrew's of Intel
		}
		return paths
	}
	return []string{"libvulkan.so.1", "libvulkan.so"}
}

// LoadLibrary loads a library for as long as the process lives. The error names what it needs and is missing.
func LoadLibrary(name string) error {
	_, err := open(name)
	return err
}

// Load opens the loader, by the names that the system knows or else at one of the paths.
func Load(paths ...string) (*Library, error) {
	if !Supported {
		_, err := open("")
		return nil, err
	}
	var first error
	for _, name := range append(loaders(), paths...) {
		handle, err := open(name)
		if err != nil {
			if first == nil {
				first = fmt.Errorf("no Vulkan loader: %w", err)
			}
			continue
		}
		l := &Library{}
		if l.getInstanceProcAddr, err = symbol(handle, "vkGetInstanceProcAddr"); err != nil {
			return nil, fmt.Errorf("%s is no Vulkan loader: %w", name, err)
		}
		return l, load(&l.fn, func(name *byte) proc { return l.find(0, name) })
	}
	return nil, first
}

func (l *Library) find(instance uintptr, name *byte) proc {
	return proc(l.getInstanceProcAddr.call(instance, uintptr(ptr(name))))
}

// load fills the fields of table, each by the function of its name. Functions of extensions may be missing: they are
// called only where the extension was enabled.
func load(table any, find func(name *byte) proc) error {
	v := reflect.ValueOf(table).Elem()
	for i := range v.NumField() {
		name := "vk" + v.Type().Field(i).Name
		p := find(CString(name))
		if p == 0 && !ofExtension(name) {
			return fmt.Errorf("the Vulkan driver has no %s: update it", name)
		}
		*(*proc)(v.Field(i).Addr().UnsafePointer()) = p
	}
	return nil
}

func ofExtension(name string) bool {
	return strings.HasSuffix(name, "EXT") || strings.HasSuffix(name, "KHR") || strings.HasSuffix(name, "NV")
}

// list calls f for the number of elements, and then for the elements. A count that grew in between is asked for again.
func list[T any](f func(n *uint32, all *T) error) ([]T, error) {
	return typed(f, func(*T) {})
}

// typed is list for structures that carry their type, which set sets.
func typed[T any](f func(n *uint32, all *T) error, set func(*T)) ([]T, error) {
	for {
		var n uint32
		if err := f(&n, nil); err != nil || n == 0 {
			return nil, err
		}
		all := make([]T, n)
		for i := range all {
			set(&all[i])
		}
		if err := f(&n, &all[0]); err != Incomplete {
			return all[:n], err
		}
	}
}

// Version returns the loader's, as VK_MAKE_API_VERSION.
func (l *Library) Version() (uint32, error) {
	var v uint32
	err := result(l.fn.EnumerateInstanceVersion.call(uintptr(ptr(&v))))
	return v, err
}

// Layers lists the names of the layers that can be enabled.
func (l *Library) Layers() ([]string, error) {
	all, err := list(func(n *uint32, all *LayerProperties) error {
		return result(l.fn.EnumerateInstanceLayerProperties.call(uintptr(ptr(n)), uintptr(ptr(all))))
	})
	var names []string
	for i := range all {
		names = append(names, GoString(all[i].LayerName[:]))
	}
	return names, err
}

// Extensions lists the names of the instance extensions of the loader and its drivers, or of a layer.
func (l *Library) Extensions(layer string) ([]string, error) {
	var of *byte
	if layer != "" {
		of = CString(layer)
	}
	all, err := list(func(n *uint32, all *ExtensionProperties) error {
		return result(l.fn.EnumerateInstanceExtensionProperties.call(uintptr(ptr(of)), uintptr(ptr(n)), uintptr(ptr(all))))
	})
	return extensionNames(all), err
}

func extensionNames(all []ExtensionProperties) (names []string) {
	for i := range all {
		names = append(names, GoString(all[i].ExtensionName[:]))
	}
	return names
}
