package chat

import (
	"encoding/json"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/chat/jinja"
)

// Tool is a function that the model may call, in OpenAI's form:
// {"type":"function","function":{"name":…,"parameters":…}}, or only the function.
type Tool = json.RawMessage

// nameOf returns a tool's name.
func nameOf(t Tool) string {
	var d struct {
		Name     string
		Function struct{ Name string }
	}
	json.Unmarshal(t, &d) // a tool that cannot be read has no name
	if d.Function.Name != "" {
		return d.Function.Name
	}
	return d.Name
}

// whole returns a tool's definition with the parts that some templates insist on: the form with a function in it, a
// description, parameters, and the types of all parameters.
func whole(tool jinja.Value) jinja.Value {
	d, ok := tool.(*jinja.Dict)
	if !ok {
		return tool
	}
	f := d
	if inner, ok := d.Get("function"); ok {
		if f, ok = inner.(*jinja.Dict); !ok {
			return tool
		}
	} else {
		d = dict("type", "function", "function", f)
	}
	if v, _ := f.Get("description"); !isText(v) {
		f.Set("description", "")
	}
	schema := member(f, "parameters")
	if schema == nil {
		schema = dict("type", "object")
		f.Set("parameters", schema)
	}
	if member(schema, "properties") == nil {
		schema.Set("properties", &jinja.Dict{})
	}
	typed(schema)
	return d
}

func isText(v jinja.Value) bool {
	_, ok := v.(string)
	return ok
}

// member returns a member that is an object, or nil.
func member(d *jinja.Dict, name string) *jinja.Dict {
	v, _ := d.Get(name)
	m, _ := v.(*jinja.Dict)
	return m
}

// typed gives types to a schema and the schemas in it; the likeliest one if they have none.
func typed(schema *jinja.Dict) {
	properties, items := member(schema, "properties"), member(schema, "items")
	switch t, _ := schema.Get("type"); t := t.(type) {
	case string:
	case *jinja.List: // without null, which few templates know
		some := slices.DeleteFunc(slices.Clone(t.Items), func(v jinja.Value) bool { return v == "null" || !isText(v) })
		if len(some) == 1 {
			schema.Set("type", some[0])
		} else if len(some) < len(t.Items) {
			schema.Set("type", &jinja.List{Items: some})
		}
	default:
		schema.Set("type", likelyType(schema))
	}
	if properties != nil {
		var names []string
		for name := range properties.All {
			if s, ok := name.(string); ok {
				names = append(names, s)
			}
		}
		for _, name := range names {
			if member(properties, name) == nil { // true: anything
				properties.Set(name, &jinja.Dict{})
			}
			typed(member(properties, name))
		}
	}
	if items != nil {
		typed(items)
	}
}

// likelyType returns the type of the values that a schema names, or of its first alternative.
func likelyType(schema *jinja.Dict) string {
	if member(schema, "properties") != nil {
		return "object"
	}
	if _, ok := schema.Get("items"); ok {
		return "array"
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf", "enum"} {
		v, _ := schema.Get(name)
		list, _ := v.(*jinja.List)
		if list == nil {
			continue
		}
		for _, one := range list.Items {
			switch one := one.(type) {
			case *jinja.Dict:
				if t, _ := one.Get("type"); isText(t) && t != "null" {
					return t.(string)
				}
			case int64:
				return "integer"
			case float64:
				return "number"
			case bool:
				return "boolean"
			}
		}
	}
	return "string"
}
