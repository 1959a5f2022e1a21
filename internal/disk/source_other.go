//go:build unix && !linux && !darwin

package disk

import "os"

// direct reads by the page cache.
func direct(f *os.File) (s source, align int64, ok bool, err error) {
	o, err := newOpened(f)
	return o, usualAlign, false, err
}

func uncache(*os.File) {}

func hugePages([]byte) {}
