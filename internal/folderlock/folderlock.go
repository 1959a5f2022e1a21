// Package folderlock keeps a folder to one process at a time.
package folderlock

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gofrs/flock"
)

// The files that a lock leaves in its folder.
const (
	Name   = "lock"
	Holder = "process" // has the number of the process that holds, or held, the lock
)

// Lock is a lock on a folder. It ends with the process at the latest.
type Lock struct{ file *flock.Flock }

// Take locks an existing folder. flag is the flag that names another folder, for the error if a process has locked it.
func Take(dir, flag string) (*Lock, error) {
	l := &Lock{flock.New(filepath.Join(dir, Name))}
	holder := filepath.Join(dir, Holder)
	ok, err := l.file.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be locked: %w", dir, err)
	case !ok:
		who := "another process"
		if b, err := os.ReadFile(holder); err == nil && len(b) > 0 {
			who = fmt.Sprintf("process %.20s", b)
		}
		return nil, fmt.Errorf("%s is in use by %s; wait for it, or name another folder with %s", dir, who, flag)
	}
	if err := os.WriteFile(holder, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// Release lets another process take the folder.
func (l *Lock) Release() {
	if l != nil {
		_ = l.file.Close()
	}
}
