package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/filekind"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// maxJSON bounds the JSON files of a model folder; the largest known tokenizer.json has 34 MB.
const maxJSON = 256 << 20

// ReadFile reads a whole file of at most maxJSON bytes.
func ReadFile(path string) ([]byte, error) {
	size, err := regular(path)
	if err != nil {
		return nil, err
	}
	if size > maxJSON {
		return nil, fmt.Errorf("%s: %d bytes are more than the %d that such a file may have", path, size, maxJSON)
	}
	return wholefile.Read(path, maxJSON)
}

// regular returns the size of the file at path. Other than regular files are refused: a pipe waits for its writer, a
// device may never end.
func regular(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s: %w: give a Hugging Face folder with all its files, or download it again", path, fs.ErrNotExist)
	}
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s: not a regular file", path)
	}
	return info.Size(), delivered(path)
}

// delivered refuses what a repository or a server left in place of a file.
func delivered(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, filekind.Sample)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", path, err)
	}
	if said := filekind.Undelivered(head[:n]); said != "" {
		return fmt.Errorf("%s: %s", path, said)
	}
	return nil
}

// ReadJSON decodes the file at path into v; errors name the file, the offset and, for a wrong type, the key.
func ReadJSON(path string, v any) error {
	data, err := ReadFile(path)
	if err != nil {
		return err
	}
	return DecodeJSON(path, data, v)
}

// DecodeJSON decodes data into v as ReadJSON does; path is for messages.
func DecodeJSON(path string, data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && infinite.Match(data) {
		err = json.Unmarshal(finite(data), v)
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: offset %d: %v", path, syntax.Offset, err)
	case errors.As(err, &wrong):
		key := ""
		if wrong.Field != "" {
			key = fmt.Sprintf("key %q: ", wrong.Field)
		}
		return fmt.Errorf("%s: offset %d: %sa JSON %s where %s belongs", path, wrong.Offset, key, wrong.Value, jsonName(wrong.Type))
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// finite returns data with null for numbers that Python writes and JSON does not have, as far as they follow a comma, a
// colon or a bracket. Offsets stay.
func finite(data []byte) []byte {
	return infinite.ReplaceAllFunc(data, func(b []byte) []byte {
		word := bytes.TrimLeft(b, ",:[ \t\r\n")
		return slices.Concat(b[:len(b)-len(word)], []byte("null"), bytes.Repeat([]byte(" "), len(word)-len("null")))
	})
}

var infinite = regexp.MustCompile(`[,:\[][ \t\r\n]*(-?Infinity)\b`)

// jsonName returns the JSON name of a Go type with its article.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonName(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "an integer"
}

// Exists reports whether path can be read as a file.
func Exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
