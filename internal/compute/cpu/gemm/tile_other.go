//go:build !amd64

package gemm

func platform() []*kernels { return nil }
