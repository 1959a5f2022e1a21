package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{5, 6, Setting} {
		if got, err := Read(name, most); string(got) != "12345" || err != nil {
			t.Errorf("at most %d: %q, %v", most, got, err)
		}
	}
	if _, err := Read(name, 4); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), name) {
		t.Errorf("at most 4: %v", err)
	}
	if _, err := Read(name+"x", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
	if _, err := Read(filepath.Dir(name), 4); err == nil {
		t.Error("a folder is read")
	}
}

// TestReadFrom: an open file is read from its position, and its size is ignored.
func TestReadFrom(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("1234567890"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(7, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFrom(f, 3); string(got) != "890" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
