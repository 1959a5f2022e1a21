package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// maxJSON bounds the JSON files of a model folder; the largest known tokenizer.json has 34 MB.
const maxJSON = 256 << 20

// readFile reads a whole file of at most maxJSON bytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxJSON {
		return nil, fmt.Errorf("%s: %d bytes are more than the %d that such a file may have", path, info.Size(), maxJSON)
	}
	return os.ReadFile(path)
}

// readJSON decodes the file at path into v; errors name the file, the offset and, for a wrong type, the key.
func readJSON(path string, v any) error {
	data, err := readFile(path)
	if err != nil {
		return err
	}
	return decodeJSON(path, data, v)
}

func decodeJSON(path string, data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: offset %d: %v", path, syntax.Offset, err)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: offset %d: key %q: a %s where a %s belongs", path, wrong.Offset, wrong.Field, wrong.Value, wrong.Type)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// exists reports whether path can be read as a file.
func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
