//go:build !linux

package measure

// buffer is n bytes.
func buffer(n int) (b []byte, release func(), err error) { return make([]byte, n), func() {}, nil }
