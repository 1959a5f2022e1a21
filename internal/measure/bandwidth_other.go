//go:build !amd64

package measure

func sumWords(b []byte) uint64 { return sumGeneric(b) }

func sumRow(b, _ []byte) uint64 { return sumGeneric(b) }
