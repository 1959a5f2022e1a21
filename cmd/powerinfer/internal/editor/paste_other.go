//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package editor

func (e *Editor) pasteActions() map[string]func() { return nil }
