package hub

import (
	"slices"
	"strings"
)

// Short is a published model with a short name. Its sizes are those of its usual file, approximately.
type Short struct {
	Name       string  // FAMILY:SIZE
	Usual      bool    // the family's name alone means this model
	At         string  // USER/REPO[:QUANT] at the hub
	Bytes      float64 // of its files
	Parameters float64 // in billions
	Active     float64 // in billions, the parameters that a token needs
	Cache      int     // KiB of keys and values that each token of context takes
	About      string  // its purpose or origin, if that is not conversation
}

// Hub returns the model's name at the hub.
func (m *Short) Hub() Name {
	n, err := ParseName(m.At)
	if err != nil {
		panic(err) // the table is compiled in, and tested
	}
	return n
}

// Memory returns about how many bytes the model takes with this many tokens of context.
func (m *Short) Memory(context int) int64 {
	const process = 150 << 20 // activations and the process itself
	return int64(m.Bytes) + int64(m.Cache)<<10*int64(context) + process
}

// Read returns the share of the model's bytes that a token reads.
func (m *Short) Read() float64 { return min(1, m.Active/m.Parameters) }

// FindShort returns the model that a name means, in any case: FAMILY:SIZE, FAMILY or FAMILY:latest for the usual size,
// each optionally followed by a quantisation, as in qwen3:8b-q8_0. at is the model's name at the hub, with that
// quantisation.
func FindShort(name string) (m Short, at Name, ok bool) {
	name = strings.ToLower(name)
	if m, ok = findShort(name); ok {
		return m, m.Hub(), true
	}
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return m, at, false
	}
	quant := Quant(name + ".gguf")
	if m, ok = findShort(name[:i]); !ok || quant == "" || !strings.EqualFold(quant, name[i+1:]) {
		return Short{}, at, false
	}
	at = m.Hub()
	at.Tag = quant
	return m, at, true
}

func findShort(name string) (Short, bool) {
	family := strings.TrimSuffix(name, ":latest")
	for _, m := range Shorts() {
		if m.Name == name || m.Usual && m.Family() == family {
			return m, true
		}
	}
	return Short{}, false
}

// Family returns the first part of the name.
func (m *Short) Family() string {
	family, _, _ := strings.Cut(m.Name, ":")
	return family
}

// ShortNames returns every short name, families' among them, sorted.
func ShortNames() []string {
	var names []string
	for _, m := range Shorts() {
		names = append(names, m.Name)
		if m.Usual {
			names = append(names, m.Family())
		}
	}
	slices.Sort(names)
	return names
}

// ShortStems returns the beginnings of families' names: their first letters, if there are four or more, and the end
// that the names of Mistral's models share.
func ShortStems() []string {
	stems := []string{"stral"}
	for _, m := range Shorts() {
		family := m.Family()
		if i := strings.IndexFunc(family, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
			family = family[:i]
		}
		if len(family) >= 4 && !slices.Contains(stems, family) {
			stems = append(stems, family)
		}
	}
	return stems
}

// ShortSizes returns the names of a family's models.
func ShortSizes(family string) []string {
	var names []string
	for _, m := range Shorts() {
		if m.Family() == strings.ToLower(family) {
			names = append(names, m.Name)
		}
	}
	return names
}
