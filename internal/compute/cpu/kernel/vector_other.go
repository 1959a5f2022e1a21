//go:build !amd64

package kernel

func archVectors() []Vector { return nil }
