//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package editor

// keyboard does nothing: this system's terminals do not echo keys that nobody reads, like the Windows console.
type keyboard struct{}

func openKeyboard(int) (*keyboard, error) { return &keyboard{}, nil }

func (*keyboard) hold() error { return nil }

func (*keyboard) suspend(func() error) error { return nil }

func (*keyboard) close() error { return nil }
