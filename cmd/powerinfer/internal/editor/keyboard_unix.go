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

// keyboard handles a terminal's input while an answer is written and nobody reads the input. It keeps typed text for
// the next prompt, out of the middle of the answer, and without the kernel's editing, which would cut lines at 4,095
// bytes. Ctrl-C and Ctrl-Z act at once, and drop none of it.
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
				_ = k.suspend(k.hold) // on error the terminal stays as the shell left it
			case <-k.done:
				return
			}
		}
	}()
	return k, nil
}

// hold makes the terminal keep typed text until it is read, without showing it.
func (k *keyboard) hold() error {
	t := *k.before
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON
	t.Lflag |= unix.ISIG | unix.NOFLSH
	t.Iflag &^= unix.ICRNL
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return errors.Join(unix.IoctlSetTermios(k.fd, setTermios, &t), paste(true))
}

// stopLimit limits the wait for the stop to take effect: the signal may arrive a little after the call that sends it.
const stopLimit = 200 * time.Millisecond

// suspend stops the program, as Ctrl-Z does, with the terminal in the shell's state, and calls resume when it
// continues. A program without a shell does not stop, because nobody could continue it.
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

// release restores the terminal.
func (k *keyboard) release() error {
	return errors.Join(paste(false), unix.IoctlSetTermios(k.fd, setTermios, k.before))
}

func (k *keyboard) close() error {
	signal.Stop(k.stopped)
	close(k.done)
	return k.release()
}

// paste makes the terminal mark pasted text, so that its lines do not count as messages, or ends that.
func paste(marked bool) error {
	sequence := "\x1b[?2004l"
	if marked {
		sequence = "\x1b[?2004h"
	}
	_, err := io.WriteString(screen.Out.Styled(), sequence)
	return err
}
