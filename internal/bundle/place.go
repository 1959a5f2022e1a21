package bundle

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Suffix is added to the name of a model's file to name its bundle file, which no list of models shows.
const Suffix = ".neurons"

// Places returns where the bundle file of a model may be, the best place first: next to the model, and in the user's
// cache folder, for models in folders that cannot be written to.
func Places(model *gguf.File) ([]string, error) {
	y, err := layoutOf(model)
	if err != nil {
		return nil, err
	}
	return y.places(model.Path), nil
}

func (y *layout) places(model string) []string {
	list := []string{model + Suffix}
	if dir, err := os.UserCacheDir(); err == nil {
		id := y.identity()
		list = append(list, filepath.Join(dir, "powerinfer", "neurons", hex.EncodeToString(id[:16])+Suffix))
	}
	return list
}

// notWritable reports whether err is that of a folder in which the user may not write.
func notWritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
