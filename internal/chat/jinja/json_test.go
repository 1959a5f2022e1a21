package jinja

import "testing"

func TestFromJSONKeepsOrderAndNumbers(t *testing.T) {
	const in = `{"z": 1, "a": 1.0, "m": [12345678901234567890, -0.5, 1e3, null, true, "ü\n"], "z2": {}}`
	v, err := FromJSON([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"z": 1, "a": 1.0, "m": [12345678901234567890, -0.5, 1000.0, null, true, "ü\n"], "z2": {}}`
	if out, err := asJSON(v); err != nil || out != want {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
	for _, bad := range []string{``, `{`, `[1,]`, `1 2`, `{"a" 1}`, `nope`} {
		if v, err := FromJSON([]byte(bad)); err == nil {
			t.Errorf("%q gave %v", bad, v)
		}
	}
}

// asJSON encodes a value as tojson does.
func asJSON(v Value) (string, error) {
	r := &render{limits: Limits{}.filled()}
	r.steps, r.memory = r.limits.Steps, r.limits.Memory
	w := &jsonWriter{writer: writer{r: r}, item: ", ", key: ": "}
	err := w.value(v, 0)
	return w.b.String(), err
}
