package setting_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// TestFor: however errors are wrapped and joined, settings in them have the requested names, and causes are found.
func TestFor(t *testing.T) {
	inner := setting.Errorf("it is full: raise %s, or give %s, at %d: %w", setting.Context, setting.Devices.To("none"), 7, fs.ErrExist)
	for name, c := range map[string]struct {
		err           error
		flags, fields string
	}{
		"alone": {
			inner, "it is full: raise -c, or give --device none, at 7: file already exists",
			`it is full: raise Options.Limits.Context, or give Options.GPU.Devices = "none", at 7: file already exists`,
		},
		"wrapped": {
			fmt.Errorf("a: %w (b)", inner), "a: it is full: raise -c, or give --device none, at 7: file already exists (b)",
			`a: it is full: raise Options.Limits.Context, or give Options.GPU.Devices = "none", at 7: file already exists (b)`,
		},
		"joined": {
			errors.Join(setting.Errorf("give %s", setting.Step.To(3)), errors.New("c"), setting.Errorf("leave %s out", setting.Lock)),
			"give -ub 3\nc\nleave --mlock out", "give Options.Limits.UBatch = 3\nc\nleave Options.Limits.Lock out",
		},
		"twice": {setting.Errorf("%s: %w", setting.KVInRAM, inner), "--no-kv-offload: " + inner.Error(), "Options.GPU.KVInRAM: " + setting.Text(inner, setting.Fields)},
		"none":  {fs.ErrExist, "file already exists", "file already exists"},
	} {
		if got := c.err.Error(); got != c.flags {
			t.Errorf("%s: %q", name, got)
		}
		fields := setting.For(setting.Fields, c.err)
		if got := fields.Error(); got != c.fields {
			t.Errorf("%s: %q, want %q", name, got, c.fields)
		}
		again := fmt.Errorf("x: %w", fields)
		if got := setting.Text(again, setting.Flags); got != "x: "+c.flags {
			t.Errorf("%s: back to flags: %q", name, got)
		}
		if name != "joined" && !errors.Is(again, fs.ErrExist) {
			t.Errorf("%s: the cause is lost", name)
		}
	}
	if setting.For(setting.Fields, nil) != nil {
		t.Error("nil is an error")
	}
}
