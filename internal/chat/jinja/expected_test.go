package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// day returns the time that the outputs of Python's Jinja2 were made at.
func day() time.Time { return time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC) }

// usualOrder puts the keys of a context back into the order in which clients write them, and which the outputs were
// made with: expected.json itself has all keys sorted.
func usualOrder(v Value) Value {
	switch v := v.(type) {
	case *List:
		for _, item := range v.Items {
			usualOrder(item)
		}
	case *Dict:
		sorted := &Dict{}
		for _, k := range []string{"role", "id", "type", "function", "name", "description", "arguments", "parameters", "properties"} {
			if item, ok := v.Get(k); ok {
				sorted.Set(k, item)
			}
		}
		for k, item := range v.All {
			sorted.Set(k.(string), usualOrder(item))
		}
		*v = *sorted
	}
	return v
}

// TestPublishedTemplates renders chat templates of published models as Python's Jinja2 rendered them, and fails where
// it failed.
func TestPublishedTemplates(t *testing.T) {
	dir := testenv.Shared(t, "chat-templates")
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Contexts map[string]json.RawMessage
		Rendered map[string]map[string]struct{ Out, Err *string }
	}
	if err := json.Unmarshal(data, &expected); err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, outcomes := range expected.Rendered {
		source, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := Parse(string(source))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for context, want := range outcomes {
			n++
			vars, err := FromJSON(expected.Contexts[context])
			if err != nil {
				t.Fatal(err)
			}
			got, err := tmpl.Render(usualOrder(vars).(*Dict), Options{Now: day})
			switch {
			case want.Err != nil && err == nil:
				t.Errorf("%s with %s succeeded; Jinja2 says %s", name, context, *want.Err)
			case want.Err != nil:
				_, message, _ := strings.Cut(*want.Err, ": ")
				if !strings.Contains(err.Error(), strings.TrimSuffix(message, ".")) {
					t.Errorf("%s with %s failed with %q; Jinja2 says %q", name, context, err, *want.Err)
				}
			case err != nil:
				t.Errorf("%s with %s: %v", name, context, err)
			case got != *want.Out:
				t.Errorf("%s with %s:\ngot  %q\nwant %q", name, context, got, *want.Out)
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d renderings were compared", n)
	}
}
