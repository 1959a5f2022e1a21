//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package editor

// keyboard is a terminal that shows nothing of what is typed while nobody reads it, as Windows' console does.
type keyboard struct{}

func openKeyboard(int) (*keyboard, error) { return &keyboard{}, nil }

func (*keyboard) hold() error { return nil }

func (*keyboard) suspend(func() error) error { return nil }

func (*keyboard) close() error { return nil }
