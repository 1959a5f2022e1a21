//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// scratchPrefix begins the names of the folders into which programs write.
const scratchPrefix = "powerinfer-sandbox-"

// scratch is the folder that a process writes into. It is locked while we live: an unlocked one is left from a killed
// run.
type scratch struct {
	path string
	lock *os.File
}

// newScratch makes an empty folder. Another run's sweep may take it before it is locked: then it makes another one.
func newScratch() (*scratch, error) {
	const tries = 100
	for range tries {
		path, err := os.MkdirTemp("", scratchPrefix)
		if err != nil {
			return nil, err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		lock, err := lockFolder(path)
		if err == nil {
			return &scratch{path, lock}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
	return nil, fmt.Errorf("another process removes the folders named %s… in %s as soon as they are made", scratchPrefix, os.TempDir())
}

// lockFolder locks the folder at path, which must be no link and must be ours.
func lockFolder(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	var opened, now unix.Stat_t
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = errors.Join(unix.Fstat(fd, &opened), unix.Lstat(path, &now)) // it may have been removed before it was locked
	}
	if err == nil && opened.Ino != now.Ino {
		err = fs.ErrNotExist
	}
	if err == nil && int(opened.Uid) != os.Geteuid() {
		err = fs.ErrPermission
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// remove removes the folder with all in it.
func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.path), s.lock.Close())
}

// sweep removes the folders that killed runs of this user have left. Whatever cannot be removed stays for the next one.
func sweep() {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		path := filepath.Join(os.TempDir(), e.Name())
		if lock, err := lockFolder(path); err == nil {
			_ = (&scratch{path, lock}).remove()
		}
	}
}

// usage returns the number of files in the folder and their bytes; it does not count much beyond most.
func (s *scratch) usage(most int) (files int, size int64) {
	_ = filepath.WalkDir(s.path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is gone meanwhile
		}
		if files++; files > most+1 {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += blocks(info)
		}
		return nil
	})
	return files - 1, size
}

func blocks(info fs.FileInfo) int64 {
	const block = 512
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * block
	}
	return 0
}

// held returns the bytes of removed files that a process still has open or mapped, because they take room, too.
func (s *scratch) held(pid int) (size int64) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	open, _ := os.ReadDir(filepath.Join(proc, "fd"))
	for _, e := range open {
		info, err := os.Stat(filepath.Join(proc, "fd", e.Name()))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 0 {
			size += blocks(info)
		}
	}
	maps, err := os.Open(filepath.Join(proc, "maps"))
	if err != nil {
		return size
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		if !strings.HasSuffix(line, " (deleted)") || !strings.Contains(line, s.path) {
			continue
		}
		var begin, end int64
		if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err == nil {
			size += end - begin
		}
	}
	return size
}
