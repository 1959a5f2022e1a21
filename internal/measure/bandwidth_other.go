//go:build !amd64

package measure

func sumWords(b []byte) uint64 { return sumGeneric(b) }
