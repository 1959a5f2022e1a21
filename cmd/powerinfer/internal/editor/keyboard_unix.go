//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package editor

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

// keyboard handles a terminal's input while an answer is written and nobody reads the input. What the user types then
// is not shown in the middle of the answer. The kernel does not edit it either, nor cut it (its lines end at 4,095
// bytes). It waits for the next prompt. Ctrl-C and Ctrl-Z act at once, and drop none of it.
type keyboard struct {
	fd      int
	before  *unix.Termios
	stopped chan os.Signal // Ctrl-Z during an answer
	done    chan struct{}
}

func openKeyboard(fd int) (*keyboard, error) {
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	k := &keyboard{fd: fd, before: before, stopped: make(chan os.Signal, 1), done: make(chan struct{})}
	if err := k.hold(); err != nil {
		return nil, err
	}
	signal.Notify(k.stopped, syscall.SIGTSTP)
	go func() {
		for {
			select {
			case <-k.stopped:
				_ = k.suspend(k.hold) // without it the terminal stays as the shell leaves it
			case <-k.done:
				return
			}
		}
	}()
	return k, nil
}

// hold sets the terminal to keep what is typed until it is read, without showing it.
func (k *keyboard) hold() error {
	t := *k.before
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON
	t.Lflag |= unix.ISIG | unix.NOFLSH
	t.Iflag &^= unix.ICRNL
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return errors.Join(unix.IoctlSetTermios(k.fd, setTermios, &t), paste(true))
}

// stopLimit bounds the wait for the stop to take effect: the signal may arrive a little after the call that sends it
// has returned.
const stopLimit = 200 * time.Millisecond

// suspend stops the program, as Ctrl-Z does, with the terminal in the shell's state, and calls resume when it
// continues. If nobody could make it continue, because it was started without a shell, it does not stop.
func (k *keyboard) suspend(resume func() error) error {
	if session, err := unix.Getsid(0); err != nil || session == unix.Getpgrp() {
		return resume()
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	// SIGTSTP would be the usual signal, but once it was waited for, Go's runtime ignores it.
	err := errors.Join(k.release(), syscall.Kill(0, syscall.SIGSTOP))
	select {
	case <-continued:
	case <-time.After(stopLimit):
	}
	return errors.Join(err, resume(), paste(true))
}

// release gives the terminal back as it was.
func (k *keyboard) release() error {
	return errors.Join(paste(false), unix.IoctlSetTermios(k.fd, setTermios, k.before))
}

func (k *keyboard) close() error {
	signal.Stop(k.stopped)
	close(k.done)
	return k.release()
}

// paste switches on or off that the terminal marks pasted text, so that its lines are not taken for messages.
func paste(marked bool) error {
	sequence := "\x1b[?2004l"
	if marked {
		sequence = "\x1b[?2004h"
	}
	_, err := io.WriteString(screen.Out.Styled(), sequence)
	return err
}
