package grammar

import (
	"strings"
	"testing"
)

// looseCases are schemas as libraries make them, texts that are valid by all of each, texts that are not valid by what
// is supported of it, and the keywords that constrain nothing.
var looseCases = []struct {
	schema         string
	valid, invalid []string
	loose          []string
}{
	{ // zod: a string with custom checks
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"email":{"type":"string","format":"email","pattern":"^(?!\\.)(?!.*\\.\\.)[a-z.@]+$"}},"required":["email"],"additionalProperties":false}`,
		[]string{`{"email":"a@b.de"}`},
		[]string{`{"email":"a"}`, `{"email":1}`, `{}`},
		[]string{"(?!"},
	},
	{ // zod: bounds of whole numbers, an optional member that nothing is valid for
		`{"type":"object","properties":{"n":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991},"never":{"not":{}}},"required":["n"]}`,
		[]string{`{"n":3}`},
		[]string{`{"n":3,"never":1}`, `{"n":1.5}`},
		nil,
	},
	{ // pydantic: a union with a discriminator
		`{"$defs":{"Cat":{"title":"Cat","type":"object","properties":{"kind":{"const":"cat","title":"Kind","type":"string"},"lives":{"default":9,"type":"integer"}},"required":["kind"]},"Dog":{"type":"object","properties":{"kind":{"const":"dog","type":"string"}},"required":["kind"]}},"properties":{"pet":{"discriminator":{"mapping":{"cat":"#/$defs/Cat","dog":"#/$defs/Dog"},"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}],"title":"Pet"}},"required":["pet"],"title":"Owner","type":"object"}`,
		[]string{`{"pet":{"kind":"cat","lives":7}}`, `{"pet":{"kind":"dog"}}`},
		[]string{`{"pet":{"kind":"cow"}}`},
		nil,
	},
	{ // pydantic: formats that are only notes, and lengths beyond the limit of counting
		`{"type":"object","properties":{"path":{"format":"path","type":"string"},"data":{"format":"binary","type":"string","maxLength":100000000},"tags":{"items":{"type":"string"},"type":"array","uniqueItems":true}},"required":["path","data","tags"]}`,
		[]string{`{"path":"/a","data":"x","tags":["a"]}`},
		[]string{`{"path":1,"data":"x","tags":[]}`, `{"path":"","data":"","tags":[1]}`},
		[]string{`"path"`, `"binary"`, "maxLength", "uniqueItems"},
	},
	{ // OpenAPI 3.0
		`{"type":"object","nullable":false,"properties":{"a":{"type":"string","enum":["x","y"],"nullable":true},"b":{"$ref":"#/definitions/N","nullable":true},"c":{"type":"number","minimum":0,"exclusiveMinimum":true}},"required":["a","b","c"],"definitions":{"N":{"type":"integer"}}}`,
		[]string{`{"a":null,"b":null,"c":0.5}`, `{"a":"x","b":3,"c":1}`},
		[]string{`{"a":"z","b":3,"c":1}`, `{"a":"x","b":"3","c":1}`, `{"a":"x","b":3,"c":0}`},
		nil,
	},
	{ // keywords that are not set
		`{"type":"object","format":null,"properties":{"a":{"type":null,"enum":null},"b":{"type":"array","items":null,"minItems":null},"c":{"type":"object","properties":null,"required":null},"d":{"const":null}},"required":["a","b","c","d"]}`,
		[]string{`{"a":1,"b":["x"],"c":{},"d":null}`},
		[]string{`{"a":1,"b":{},"c":{},"d":null}`, `{"a":1,"b":[],"c":1,"d":null}`, `{"a":1,"b":[],"c":{},"d":1}`},
		nil,
	},
	{ // dependencies and conditions
		`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"dependentRequired":{"a":["b"]},"if":{"required":["a"]},"then":{"required":["b"]},"propertyNames":{"maxLength":9},"additionalProperties":{"type":"string"},"minProperties":1}`,
		[]string{`{"a":1,"b":2}`, `{"other":"x"}`},
		[]string{`{"a":"1"}`, `{"other":1}`},
		[]string{"dependentRequired", "if", "then", "propertyNames", "minProperties"},
	},
	{ // members by several patterns, one of them required
		`{"type":"object","patternProperties":{"^a":{"type":"string"},"^b":{"type":"integer"}},"additionalProperties":false,"required":["a1"]}`,
		[]string{`{"a1":"x"}`},
		[]string{`[]`, `{}`},
		[]string{"patternProperties"},
	},
	{ // a reference to another document, a list that holds a schema's values twice
		`{"type":"object","properties":{"a":{"$ref":"https://example.org/a.json"},"b":{"type":"array","contains":{"const":1},"items":{"type":"integer"}},"c":{"allOf":[{"type":"string","pattern":"^(?=a)"},{"maxLength":2}]}},"required":["a","b","c"]}`,
		[]string{`{"a":{"x":[1]},"b":[1],"c":"ab"}`},
		[]string{`{"a":1,"b":["1"],"c":"ab"}`, `{"a":1,"b":[1],"c":"abc"}`},
		[]string{"$ref", "contains", "(?=a)"},
	},
	{ // numbers that no automaton counts
		`{"type":"object","properties":{"a":{"type":"integer","multipleOf":5,"minimum":10},"b":{"type":"number","multipleOf":0.3}},"required":["a","b"]}`,
		[]string{`{"a":15,"b":0.6}`},
		[]string{`{"a":5,"b":0.6}`, `{"a":15,"b":"x"}`},
		[]string{"multipleOf 5 is not supported here", "multipleOf 0.3"},
	},
	{ // alternatives that are not plainly apart
		`{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"string"}}}]}`,
		[]string{`{"a":"x"}`, `{"b":"x"}`},
		[]string{`{"c":"x"}`, `1`},
		[]string{"oneOf"},
	},
}

// TestLooseSchemas: unsupported parts constrain nothing and are named, and everything else holds.
func TestLooseSchemas(t *testing.T) {
	v := byteVocabulary(t)
	for _, k := range looseCases {
		g, loose, err := FromSchema(t.Context(), []byte(k.schema), true)
		if err != nil {
			t.Errorf("%s: %v", k.schema, err)
			continue
		}
		c, err := g.Compile(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range k.valid {
			if !accepts(c, text) {
				t.Errorf("%s: %s is refused", k.schema, text)
			}
		}
		for _, text := range k.invalid {
			if accepts(c, text) {
				t.Errorf("%s: %s is taken", k.schema, text)
			}
		}
		named := strings.Join(loose, "\n")
		for _, want := range k.loose {
			if !strings.Contains(named, want) {
				t.Errorf("%s: %s is not among what is not held to: %s", k.schema, want, named)
			}
		}
		if len(k.loose) == 0 && len(loose) > 0 {
			t.Errorf("%s: %s", k.schema, named)
		}
		if _, _, err := FromSchema(t.Context(), []byte(k.schema), false); (err != nil) != (len(k.loose) > 0) {
			t.Errorf("%s: strictly: %v", k.schema, err)
		}
	}
}
