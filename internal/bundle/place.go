package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Suffix is added to the name of a model's file to name its bundle file.
const Suffix = gguf.NeuronsSuffix

// Places returns where the bundle file of the model at path may be, the best place first: next to the model, and in the
// user's cache folder, for models in read-only folders.
func Places(path string) []string {
	list := []string{path + Suffix}
	dir, err := os.UserCacheDir()
	if err != nil {
		return list
	}
	if path, err = filepath.Abs(path); err != nil {
		return list
	}
	name := sha256.Sum256([]byte(path)) // a model that is replaced has its file replaced, too
	return append(list, filepath.Join(dir, "powerinfer", "neurons", hex.EncodeToString(name[:16])+Suffix))
}

// notWritable reports whether err says that the user may not write to a folder.
func notWritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
