//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package main

func (e *lineEditor) pasteActions() map[string]func() { return nil }
