package screen

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestError(t *testing.T) {
	long, cut := strings.Repeat("ä", 2000), strings.Repeat("ä", longestError)+"…"
	for in, want := range map[string]string{
		"a\nb\x1b[31mc": "a b[31mc",
		`invalid value "1e3" for flag -n: strconv.ParseInt: parsing "1e3": invalid syntax`: `invalid value "1e3" for flag -n: it is not a whole number`,
		`strconv.ParseFloat: parsing "a\"b": invalid syntax`:                               "it is not a number",
		`strconv.ParseBool: parsing "x": invalid syntax`:                                   "it is neither true nor false",
		`strconv.Atoi: parsing "99999999999999999999": value out of range`:                 "value out of range",
		long: cut,
	} {
		if got := Error(errors.New(in)); got != want {
			t.Errorf("Error(%q) = %q, want %q", in, got, want)
		}
	}
	_, err := os.Open(filepath.Join("no", "file"))
	if got, want := Error(fmt.Errorf("-f: %w", err)), "-f: "+filepath.Join("no", "file")+": "; !strings.HasPrefix(got, want) {
		t.Errorf("Error(%v) = %q, want it to begin with %q", err, got, want)
	}
}
