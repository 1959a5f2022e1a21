package answer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// parameter is an argument of a tool, for forms that write arguments without JSON's quotes.
type parameter struct {
	name     string
	required bool
	kinds
}

// kinds is the set of types that a schema allows, as far as it says so.
type kinds struct {
	types  []string // of JSON Schema; none: anything
	values []string // strings that enum and const name
	free   bool     // strings need not be among values
}

// text reports whether the argument may be a string: then the written text is the string.
func (p *kinds) text() bool { return slices.Contains(p.types, "string") }

func (p *kinds) null() bool { return slices.Contains(p.types, "null") }

// schema is the part of a JSON Schema about the type of a value.
type schema struct {
	Type         any
	Enum         []any
	Const        any
	AnyOf, OneOf []json.RawMessage
	Ref          string `json:"$ref"`

	Properties, AdditionalProperties, Items json.RawMessage
}

// shape describes the values that a schema within root allows, with the schemas that it refers to.
type shape struct {
	kinds
	root    json.RawMessage
	schemas []schema
}

func shapeOf(root, raw json.RawMessage) shape {
	s := shape{root: root}
	walk(root, raw, 0, func(one *schema) {
		s.schemas = append(s.schemas, *one)
		s.kinds.take(one)
	})
	return s
}

// member returns the shape of an object's member.
func (s *shape) member(name string) shape {
	for _, one := range s.schemas {
		var members map[string]json.RawMessage
		if json.Unmarshal(one.Properties, &members) == nil && members[name] != nil {
			return shapeOf(s.root, members[name])
		}
	}
	return s.first(func(one *schema) json.RawMessage { return one.AdditionalProperties })
}

// item returns the shape of a list's items.
func (s *shape) item() shape {
	return s.first(func(one *schema) json.RawMessage { return one.Items })
}

// first returns the shape of the first schema that has one.
func (s *shape) first(of func(*schema) json.RawMessage) shape {
	for i := range s.schemas {
		if raw := of(&s.schemas[i]); raw != nil {
			return shapeOf(s.root, raw)
		}
	}
	return shape{root: s.root}
}

// pointer and unpointer write a name within a JSON pointer (RFC 6901), and read it.
var (
	pointer   = strings.NewReplacer("~", "~0", "/", "~1")
	unpointer = strings.NewReplacer("~1", "/", "~0", "~")
)

// maxReference bounds how far a parameter's type is looked for.
const maxReference = 8

// parameters returns the properties of a tool's schema in their order.
func (t *Tool) parameters() []parameter {
	var object struct {
		Properties json.RawMessage
		Required   []string
	}
	if json.Unmarshal(t.Parameters, &object) != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(object.Properties))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil
	}
	var out []parameter
	for d.More() {
		name, err := d.Token()
		if err != nil {
			break
		}
		var s json.RawMessage
		if d.Decode(&s) != nil {
			break
		}
		p := parameter{name: name.(string)}
		p.required = slices.Contains(object.Required, p.name)
		walk(t.Parameters, s, 0, p.kinds.take)
		out = append(out, p)
	}
	return out
}

// take adds the types that a schema allows, without those of referenced schemas.
func (k *kinds) take(s *schema) {
	if s.Const != nil {
		s.Enum = append(s.Enum, s.Const)
	}
	for _, e := range s.Enum {
		switch e := e.(type) {
		case string:
			k.types, k.values = append(k.types, "string"), append(k.values, e)
		case nil:
			k.types = append(k.types, "null")
		}
	}
	if len(s.Enum) == 0 {
		before := len(k.types)
		switch t := s.Type.(type) {
		case string:
			k.types = append(k.types, t)
		case []any:
			for _, e := range t {
				if name, ok := e.(string); ok {
					k.types = append(k.types, name)
				}
			}
		}
		k.free = k.free || slices.Contains(k.types[before:], "string")
	}
}

// walk visits a schema within root and those to which it refers.
func walk(root, raw json.RawMessage, depth int, visit func(*schema)) {
	var s schema
	if depth > maxReference || json.Unmarshal(raw, &s) != nil {
		return
	}
	visit(&s)
	for _, sub := range append(s.AnyOf, s.OneOf...) {
		walk(root, sub, depth+1, visit)
	}
	if path, ok := strings.CutPrefix(s.Ref, "#/"); ok {
		at := root
		for _, key := range strings.Split(path, "/") {
			var object map[string]json.RawMessage
			if json.Unmarshal(at, &object) != nil {
				return
			}
			at = object[unpointer.Replace(key)]
		}
		walk(root, at, depth+1, visit)
	}
}
