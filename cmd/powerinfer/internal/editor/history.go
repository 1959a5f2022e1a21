package editor

import (
	"os"
	"path/filepath"
	"runtime"
)

// historyFile returns the path of the file of typed lines, which only the user can read.
func historyFile(name string) (string, error) {
	folder, err := stateFolder()
	if err != nil {
		return "", err
	}
	folder = filepath.Join(folder, "powerinfer")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(folder, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	return path, f.Close()
}

// stateFolder returns the folder for a program's state: XDG's, or the system's own.
func stateFolder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return os.UserConfigDir()
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}
