package prepare

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/folderlock"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// work is the folder with a run's state. Every file appears complete, by renaming, except for traces, which grow and
// have their valid length stored elsewhere.
type work struct {
	dir  string
	lock *folderlock.Lock // held while a process works in the folder
}

// Files of the work folder.
const (
	fileIdentity = "run.json"
	fileTexts    = "texts"
	filePlan     = "plan.json"
	fileProfile  = "profile"
	fileBase     = "dense.logits"
	fileModel    = "candidate.gguf"
)

// identity is everything that decides a run's result: a run is resumed only with the same.
type identity struct {
	Version     int
	Model       string // SHA-256 over keys, and over shape and beginning of each tensor
	Calibration string // SHA-256 of the text; empty if the model generates it
	HeldOut     string
	Options     resultOptions
	Mapped      bool // the model is computed on in place

	Texts string `json:",omitempty"` // SHA-256 of the division into texts with separate counts of experts
}

const workVersion = 2

// openWork makes the folder, or with resume continues with an existing one, and locks it. The second result is the
// identity that counts.
func openWork(dir string, id identity, resume bool) (*work, identity, error) {
	w := &work{dir: dir}
	if err := w.take(); err != nil {
		return nil, id, err
	}
	w, id, err := w.open(id, resume)
	if err != nil {
		w.release()
	}
	return w, id, err
}

// take locks the folder. If there is none, it creates one that only the user can read, because traces reveal the text.
// It refuses a folder with other things in it.
func (w *work) take() error {
	entries, err := os.ReadDir(w.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	holds := func(names ...string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(names, e.Name()) })
	}
	if len(entries) > 0 && !holds(fileIdentity, folderlock.Name) {
		return fmt.Errorf("%s is not empty and holds no earlier run; name another folder", w.dir)
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	w.lock, err = folderlock.Take(w.dir, "--work")
	return err
}

// release lets another process work in the folder.
func (w *work) release() {
	if w != nil {
		w.lock.Release()
	}
}

// discard removes a folder that holds nothing but the run's beginning, so that a run that failed at once, for example
// on a damaged model, does not block the next.
func (w *work) discard() {
	entries, err := os.ReadDir(w.dir)
	begun := []string{fileIdentity, folderlock.Name, folderlock.Holder}
	if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(begun, e.Name()) }) {
		return
	}
	w.release() // Windows removes no locked file
	_ = os.RemoveAll(w.dir)
}

// open reads the identity of an earlier run, or begins one.
func (w *work) open(id identity, resume bool) (*work, identity, error) {
	dir := w.dir
	old, ok, err := w.read(fileIdentity)
	switch {
	case err != nil:
		return w, id, err
	case ok && !resume:
		return w, id, fmt.Errorf("%s holds an earlier run; go on with it by --resume, or remove it", dir)
	case ok:
		return w.resume(old, id)
	}
	b, err := json.MarshalIndent(id, "", "\t")
	if err != nil {
		return w, id, err
	}
	return w, id, w.write(fileIdentity, b)
}

// resume compares the folder's run with the requested one.
func (w *work) resume(b []byte, id identity) (*work, identity, error) {
	var old identity
	if err := json.Unmarshal(b, &old); err != nil {
		return w, id, w.damaged(fileIdentity)
	}
	id.Mapped = old.Mapped
	if old == id {
		return w, id, nil
	}
	var changed []string
	compare := func(a, b any) {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		for i := range x.NumField() {
			if name := x.Type().Field(i).Name; name != "Options" && !x.Field(i).Equal(y.Field(i)) {
				changed = append(changed, strings.ToLower(name))
			}
		}
	}
	compare(old, id)
	compare(old.Options, id.Options)
	return w, id, fmt.Errorf("%s holds a run with another %s; give the same again, or remove it", w.dir, strings.Join(changed, ", "))
}

func (w *work) path(name string) string { return filepath.Join(w.dir, name) }

func (w *work) damaged(name string) error {
	return fmt.Errorf("%s is damaged; remove %s and start again", w.path(name), w.dir)
}

// write writes a file that is either whole or not there.
func (w *work) write(name string, b []byte) error {
	return atomicfile.Write(w.path(name), atomicfile.Kind{}, func(f *atomicfile.File) error {
		_, err := f.Write(b)
		return err
	})
}

func (w *work) read(name string) (b []byte, ok bool, err error) {
	b, err = os.ReadFile(w.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return b, err == nil, err
}

func (w *work) remove(names ...string) {
	for _, n := range names {
		os.Remove(w.path(n))
	}
}

// beginning is the number of bytes of each tensor that go into a model's fingerprint.
const beginning = 4 << 10

// fingerprint distinguishes models without reading all of them.
func fingerprint(f *gguf.File) string {
	h := sha256.New()
	for _, kv := range f.Keys {
		fmt.Fprintf(h, "%q %T %v\n", kv.Key, kv.Value, kv.Value)
	}
	for _, t := range f.Tensors {
		fmt.Fprintf(h, "%q %v %v\n", t.Name, t.Type, t.Shape)
		h.Write(t.Data[:min(len(t.Data), beginning)])
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// sealed appends the SHA-256 of b, so that damage is noticed.
func sealed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// unsealed checks and removes it.
func unsealed(b []byte) ([]byte, bool) {
	at := len(b) - sha256.Size
	if at < 0 {
		return nil, false
	}
	sum := sha256.Sum256(b[:at])
	return b[:at], bytes.Equal(sum[:], b[at:])
}

// appendFields and readFields are binary's, for values of fixed size.
func appendFields(b []byte, values ...any) []byte {
	for _, v := range values {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b
}

func readFields(b []byte, values ...any) ([]byte, bool) {
	for _, v := range values {
		n, err := binary.Decode(b, binary.LittleEndian, v)
		if err != nil {
			return nil, false
		}
		b = b[n:]
	}
	return b, true
}
