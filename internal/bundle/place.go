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
// user's cache folder, for models in folders that cannot be written to.
func Places(path string) []string {
	list := []string{path + Suffix}
	dir, err := os.UserCacheDir()
	if err != nil {
		return list
	}
	if path, err = filepath.Abs(path); err != nil {
		return list
	}
	name := sha256.Sum256([]byte(path)) // so that a model that is replaced has its file replaced
	return append(list, filepath.Join(dir, "powerinfer", "neurons", hex.EncodeToString(name[:16])+Suffix))
}

// notWritable reports whether err is that of a folder in which the user may not write.
func notWritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
