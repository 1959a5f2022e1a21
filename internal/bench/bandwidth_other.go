//go:build !amd64

package bench

func sumWords(b []byte) uint64 { return sumGeneric(b) }
