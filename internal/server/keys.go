package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

const keySize = sha256.Size

// maxKeyFile bounds the bytes of a file of keys.
const maxKeyFile = 1 << 20

// keys are the keys that a request needs one of. Hashes are compared: all have the same length, so the comparison takes
// the same time whatever a client sends.
type keys struct {
	fixed [][keySize]byte
	file  string // file with more keys, read again when it changes; empty: none
	log   *slog.Logger

	mu      sync.Mutex
	read    [][keySize]byte // the file's keys
	changed time.Time       // the file's time when it was read
	checked time.Time
}

func hashes(list []string) [][keySize]byte {
	all := make([][keySize]byte, len(list))
	for i, k := range list {
		all[i] = sha256.Sum256([]byte(k))
	}
	return all
}

// ReadKeys reads a file of keys, one on each line; lines that begin with # are comments.
func ReadKeys(file string) ([]string, error) {
	text, err := wholefile.Read(file, maxKeyFile)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if key := strings.TrimSpace(line); key != "" && key[0] != '#' {
			list = append(list, key)
		}
	}
	return list, nil
}

// newKeys returns the keys of o; the file is read when the first request comes.
func newKeys(o *Options) *keys {
	return &keys{fixed: hashes(o.Keys), file: o.KeyFile, log: o.Log}
}

// wanted reports whether requests must have a key. A file that has become empty has them refused, not let in.
func (k *keys) wanted() bool { return len(k.fixed) > 0 || k.file != "" }

// has reports whether given is one of the keys.
func (k *keys) has(given string) bool {
	hash, same := sha256.Sum256([]byte(given)), 0
	for _, list := range [][][keySize]byte{k.fixed, k.ofFile()} {
		for i := range list {
			same |= subtle.ConstantTimeCompare(hash[:], list[i][:])
		}
	}
	return same == 1
}

// ofFile returns the file's keys. While it cannot be read the old ones hold.
func (k *keys) ofFile() [][keySize]byte {
	if k.file == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if now.Sub(k.checked) < recheck {
		return k.read
	}
	k.checked = now
	if err := k.look(); err != nil {
		k.log.Warn("the keys were not read again", "reason", err)
	}
	return k.read
}

// look reads the file if it has changed. The time is taken first, so that a change meanwhile is seen the next time.
func (k *keys) look() error {
	info, err := os.Stat(k.file)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(k.changed) {
		return nil
	}
	list, err := ReadKeys(k.file)
	if err != nil {
		return err
	}
	again := !k.changed.IsZero()
	k.read, k.changed = hashes(list), info.ModTime()
	switch {
	case len(list) == 0:
		return errors.New("the file " + k.file + " holds no key any more: its keys are refused from now on")
	case again:
		k.log.Info("the keys were read again", "file", k.file, "keys", len(list))
	}
	return nil
}
