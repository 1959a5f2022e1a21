//go:build !amd64

package kernel

func platform() []*Kernels { return nil }
