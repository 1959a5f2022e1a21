package grammar

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// FromSchema returns the grammar of JSON texts that are valid by a JSON Schema (draft 2020-12; docs/grammars.md lists
// the supported part). Members come in the schema's order, one space may follow a colon or comma, and there is no other
// white space. An unsupported keyword is an error with its name and place.
//
// If tolerant is set, unsupported keywords are ignored, and loose lists each of them with its place. Then only a
// nonsensical schema is an error.
func FromSchema(ctx context.Context, schema []byte, tolerant bool) (g *Grammar, loose []string, err error) {
	m := newMeter(ctx)
	root, err := readSchema(m, schema)
	if err != nil {
		return nil, nil, err
	}
	c := &schemas{m: m, root: root, known: map[string]int32{}, shared: map[string]int32{}, tolerant: tolerant}
	c.rules = []rule{{name: "#"}}
	body, err := c.schema(root, "#")
	if err != nil {
		return nil, nil, fmt.Errorf("JSON Schema, %w", err)
	}
	c.rules[0].body = body
	if g, err = newGrammar(m, c.rules); err != nil {
		return nil, nil, fmt.Errorf("JSON Schema: %w", err)
	}
	return g, c.loose, nil
}

// readSchema reads the JSON of a schema.
func readSchema(m *meter, schema []byte) (*value, error) {
	if len(schema) > maxText {
		return nil, fmt.Errorf("the JSON Schema has %d bytes, more than %d", len(schema), maxText)
	}
	root, err := readJSON(m, schema)
	if m.err != nil {
		return nil, fmt.Errorf("JSON Schema: %w", m.err)
	}
	if err != nil {
		return nil, fmt.Errorf("the JSON Schema is no JSON: %w", err)
	}
	return root, nil
}

// schemas turns a schema and those in it into rules.
type schemas struct {
	m      *meter
	root   *value
	rules  []rule
	known  map[string]int32 // id of a schema with references -> rule
	shared map[string]int32 // id of another schema, or name of a building block -> rule; the same in all documents
	added  []string         // keys of known and shared, in order
	depth  int

	patterns map[string]*dfa // by their texts

	python   bool     // see PythonPart
	tolerant bool     // unsupported keywords are ignored, and listed in loose
	loose    []string // at most maxLoose
}

// maxLoose bounds how many keywords that constrain nothing are named.
const maxLoose = 32

// loosen reports an unsupported part of a schema: as an error, or in c.loose, and then the caller ignores it.
func (c *schemas) loosen(format string, values ...any) error {
	err := fmt.Errorf(format, values...)
	if !c.tolerant {
		return err
	}
	if reason := err.Error(); len(c.loose) < maxLoose && !slices.Contains(c.loose, reason) {
		c.loose = append(c.loose, reason)
	}
	return nil
}

// Keywords that do not affect validity.
var annotations = strings.Fields(`$schema $id id $anchor $dynamicAnchor $comment $defs definitions $vocabulary title description default
	examples example deprecated readOnly writeOnly contentMediaType contentEncoding contentSchema discriminator xml externalDocs`)

// Keywords that constrain values of one type, by type.
var typed = map[string][]string{
	"string":  strings.Fields("minLength maxLength pattern format"),
	"number":  strings.Fields("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
	"integer": strings.Fields("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
	"object":  strings.Fields("properties required additionalProperties patternProperties propertyNames minProperties maxProperties"),
	"array":   strings.Fields("items prefixItems additionalItems minItems maxItems"),
}

// types in the order in which they are tried, which does not matter.
var types = strings.Fields("object array string number integer boolean null")

// applicators are keywords that apply other schemas to the same value.
var applicators = strings.Fields("$ref allOf anyOf oneOf")

func isAnnotation(key string) bool {
	return slices.Contains(annotations, key) || strings.HasPrefix(key, "x-")
}

// supported reports whether a keyword means something here.
func supported(key string) bool {
	for _, keys := range typed {
		if slices.Contains(keys, key) {
			return true
		}
	}
	return slices.Contains(applicators, key) || key == "type" || key == "enum" || key == "const"
}

// supportedOf returns v without the unsupported keywords. loosen gets each of them, unless it holds anyway. OpenAPI's
// nullable becomes an alternative.
func (c *schemas) supportedOf(v *value, path string) (*value, error) {
	drop := map[string]bool{}
	if err := c.spend(path, 4*len(v.keys), 0); err != nil {
		return nil, err
	}
	for i, key := range v.keys {
		isNull := key != "const" && v.values[i].kind == 'n' // libraries write this for unset ones
		if isAnnotation(key) || !isNull && supported(key) && !(key == "required" && isTruth(v.values[i])) {
			continue
		}
		drop[key] = true
		if isNull {
			continue
		}
		if is := v.values[i]; is.kind == 'f' && slices.Contains([]string{"uniqueItems", "nullable", "required", "unevaluatedItems"}, key) ||
			key == "nullable" && is.kind == 't' || key == "not" && is.kind == 'f' || key == "then" && v.get("if") == nil || key == "else" && v.get("if") == nil {
			continue // up to draft 3 required is a truth value of the member itself
		}
		if err := c.loosen("%s: the keyword %s is not supported", path, shown(key)); err != nil {
			return nil, err
		}
	}
	out := v
	if len(drop) > 0 {
		out = v.only(func(key string) bool { return !drop[key] })
	}
	if n := v.get("nullable"); n != nil && n.kind == 't' {
		null := &value{kind: '{', keys: []string{"type"}, values: []*value{{kind: '"', text: "null"}}}
		out = &value{kind: '{', keys: []string{"anyOf"}, values: []*value{{kind: '[', values: []*value{out, null}}}}
	}
	return out, nil
}

func isTruth(v *value) bool { return v.kind == 't' || v.kind == 'f' }

// never reports whether a schema allows no value: not with a schema that allows all says so.
func (v *value) never() bool {
	n := v.get("not")
	return n != nil && (n.kind == 't' || n.kind == '{' && !slices.ContainsFunc(n.keys, func(k string) bool { return !isAnnotation(k) }))
}

// forget removes what was added to the known rules after the first n.
func (c *schemas) forget(n int) {
	for _, key := range c.added[n:] {
		delete(c.known, key)
		delete(c.shared, key)
	}
	c.added = c.added[:n]
}

// What an expression and a rule take, roughly, with what leads to them.
const (
	exprBytes = 256
	ruleBytes = 1024
)

// spend counts steps and bytes of the schema at path.
func (c *schemas) spend(path string, steps, bytes int) error {
	if err := cmp.Or(c.m.take(bytes), c.m.spend(steps)); err != nil {
		return fmt.Errorf("%s: %w", short(path), err)
	}
	return nil
}

// rule returns a reference to the rule of that key; build makes it if it is not known yet.
func (c *schemas) rule(key, name string, build func() (*expr, error)) (*expr, error) {
	known := c.shared
	if strings.HasPrefix(key, refers) {
		known = c.known
	}
	if c.python {
		key = "python " + key
	}
	if i, ok := known[key]; ok {
		return reference(i), nil
	}
	if err := c.spend(name, 1, ruleBytes+len(key)); err != nil {
		return nil, err
	}
	if len(c.rules) >= maxRules {
		return nil, fmt.Errorf("%s: the schema takes more than %d rules", name, maxRules)
	}
	i := int32(len(c.rules))
	known[key], c.added = i, append(c.added, key)
	c.rules = append(c.rules, rule{name: name, body: choice()})
	body, err := build()
	if err != nil {
		return nil, err
	}
	c.rules[i].body = body
	return reference(i), nil
}

// schema returns the texts that are valid by v. Equal schemas share a rule.
func (c *schemas) schema(v *value, path string) (*expr, error) {
	path = short(path)
	switch v.kind {
	case 't':
		return c.anything()
	case 'f':
		return choice(), nil
	case '{':
	default:
		return nil, fmt.Errorf("%s: a schema is an object, true or false", path)
	}
	return c.rule(v.id(), path, func() (*expr, error) {
		if c.depth++; c.depth > 10*maxNesting {
			return nil, fmt.Errorf("%s: schemas refer to each other more than %d deep", path, 10*maxNesting)
		}
		defer func() { c.depth-- }()
		return c.object(v, path)
	})
}

// short shortens the middle of a long path for errors.
func short(path string) string {
	const most = 256
	if len(path) <= most {
		return path
	}
	return strings.ToValidUTF8(path[:most/2], "") + "…" + strings.ToValidUTF8(path[len(path)-most/2:], "")
}

// object returns the texts that are valid by a schema that is an object.
func (c *schemas) object(v *value, path string) (*expr, error) {
	if v.never() {
		return choice(), nil
	}
	v, err := c.supportedOf(v, path)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, k := range v.keys {
		if !isAnnotation(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return c.anything()
	}
	if len(keys) == 1 { // these may be recursive
		switch e := v.get(keys[0]); keys[0] {
		case "$ref":
			target, at, err := c.resolve(e, path)
			if err != nil {
				return nil, err
			}
			return c.schema(target, at)
		case "anyOf":
			return c.each(e, path+"/anyOf")
		case "oneOf":
			if err := c.disjoint(e, path+"/oneOf"); err != nil {
				return nil, err
			}
			return c.each(e, path+"/oneOf")
		}
	}
	if slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(applicators, k) }) {
		alternatives, err := c.expand(v, path, 0)
		if err != nil {
			return nil, err
		}
		var subs []*expr
		for _, a := range alternatives {
			e, err := c.schema(a, path)
			if err != nil {
				return nil, err
			}
			subs = append(subs, e)
		}
		return choice(subs...), nil
	}
	return c.plain(v, path)
}

// each returns the texts that are valid by one of the schemas of a list.
func (c *schemas) each(list *value, path string) (*expr, error) {
	if list.kind != '[' || len(list.values) == 0 {
		return nil, fmt.Errorf("%s: a list of schemas belongs here", path)
	}
	if err := c.spend(path, 0, len(list.values)*exprBytes); err != nil {
		return nil, err
	}
	var subs []*expr
	for i, s := range list.values {
		e, err := c.schema(s, fmt.Sprint(path, "/", i))
		if err != nil {
			return nil, err
		}
		subs = append(subs, e)
	}
	return choice(subs...), nil
}

// resolve returns the schema that a $ref names, and its place.
func (c *schemas) resolve(ref *value, path string) (*value, string, error) {
	if ref.kind != '"' || ref.text != "#" && !strings.HasPrefix(ref.text, "#/") {
		return truth(true), path, c.loosen("%s: $ref %s is not supported; references are # or begin with #/", path, ref)
	}
	at := c.root
	parts := strings.Split(ref.text, "/")[1:]
	if err := c.spend(path, 4*len(parts), 0); err != nil {
		return nil, "", err
	}
	for _, part := range parts {
		if text, err := url.PathUnescape(part); err == nil {
			part = text
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		var next *value
		if n, err := strconv.Atoi(part); err == nil && at.kind == '[' && n >= 0 && n < len(at.values) {
			next = at.values[n]
		} else {
			next = at.get(part)
		}
		if next == nil {
			return nil, "", fmt.Errorf("%s: $ref %s names nothing: there is no %q", path, ref, shown(part))
		}
		at = next
	}
	return at, ref.text, nil
}

// plain returns the texts that are valid by a schema without applicators.
func (c *schemas) plain(v *value, path string) (*expr, error) {
	allowed, err := typesOf(v, path)
	if err != nil {
		return nil, err
	}
	if v.get("enum") != nil || v.get("const") != nil {
		return c.enumeration(v, allowed, path)
	}
	var subs []*expr
	for _, t := range allowed {
		var e *expr
		var err error
		switch t {
		case "object":
			e, err = c.members(v, path)
		case "array":
			e, err = c.items(v, path)
		case "string":
			e, err = c.text(v, path)
		case "number":
			e, err = c.number(v, path)
		case "integer":
			e, err = c.integer(v, path)
		case "boolean":
			e = choice(c.scalar(truth(true)), c.scalar(truth(false)))
		case "null":
			e = c.scalar(&value{kind: 'n'})
		}
		if err != nil {
			return nil, err
		}
		subs = append(subs, e)
	}
	return choice(subs...), nil
}

// typesOf returns the types that a schema allows. Without a type, it is those of its keywords.
func typesOf(v *value, path string) ([]string, error) {
	var named []string
	switch t := v.get("type"); {
	case t == nil:
		for _, name := range types {
			if name != "integer" && slices.ContainsFunc(typed[name], func(k string) bool { return v.get(k) != nil }) {
				named = append(named, name)
			}
		}
		if named == nil {
			named = types
		}
	case t.kind == '"':
		named = []string{t.text}
	case t.kind == '[':
		for _, e := range t.values {
			named = append(named, e.text)
		}
	default:
		return nil, fmt.Errorf("%s/type: a name or a list of names belongs here", path)
	}
	for _, name := range named {
		if !slices.Contains(types, name) {
			return nil, fmt.Errorf("%s/type: %q is no type; types are %s", path, shown(name), strings.Join(types, ", "))
		}
	}
	if slices.Contains(named, "number") { // it includes integers
		named = slices.DeleteFunc(slices.Clone(named), func(n string) bool { return n == "integer" })
	}
	return named, nil
}

// enumeration returns the values of enum and const.
func (c *schemas) enumeration(v *value, allowed []string, path string) (*expr, error) {
	for _, k := range v.keys {
		if !isAnnotation(k) && k != "type" && k != "enum" && k != "const" {
			if err := c.loosen("%s: %s beside enum or const is not supported", path, k); err != nil {
				return nil, err
			}
		}
	}
	if e := v.get("enum"); e != nil && e.kind != '[' {
		return nil, fmt.Errorf("%s/enum: a list of values belongs here", path)
	}
	values, _ := constants(v)
	var subs []*expr
	for _, e := range values {
		if slices.ContainsFunc(allowed, e.is) {
			text, err := c.constant(e, path)
			if err != nil {
				return nil, err
			}
			subs = append(subs, text)
		}
	}
	if len(subs) == 0 {
		return nil, fmt.Errorf("%s: no value of the enum or const is of the type", path)
	}
	return choice(subs...), nil
}

// constant returns the texts of a value of enum or const.
func (c *schemas) constant(v *value, path string) (*expr, error) {
	if err := c.spend(path, 0, exprBytes*(1+3*len(v.values))+len(v.text)); err != nil {
		return nil, err
	}
	if v.kind != '{' && v.kind != '[' {
		return c.scalar(v), nil
	}
	parts := []*expr{literal(string(v.kind))}
	for i, e := range v.values {
		if i > 0 {
			parts = append(parts, comma)
		}
		if v.kind == '{' {
			parts = append(parts, c.scalar(&value{kind: '"', text: v.keys[i]}), colon)
		}
		text, err := c.constant(e, path)
		if err != nil {
			return nil, err
		}
		parts = append(parts, text)
	}
	return sequence(append(parts, literal(string(v.kind+2)))...), nil // } and ]
}

// scalar returns the spellings of a value that is neither an object nor a list, with Python's.
func (c *schemas) scalar(v *value) *expr {
	text := v.json()
	if !c.python {
		return literal(text)
	}
	switch v.kind {
	case '"':
		return choice(literal(text), literal(singleQuoted(text)))
	case 't', 'f':
		return choice(literal(text), literal(strings.ToUpper(text[:1])+text[1:]))
	case 'n':
		return choice(literal(text), literal("None"))
	}
	return literal(text) // a number
}

// is reports whether v is of a type of JSON Schema's.
func (v *value) is(name string) bool {
	switch v.kind {
	case '{':
		return name == "object"
	case '[':
		return name == "array"
	case '"':
		return name == "string"
	case 't', 'f':
		return name == "boolean"
	case 'n':
		return name == "null"
	}
	if name == "integer" {
		r, ok := rational(v)
		return ok && r.IsInt()
	}
	return name == "number"
}

// rational returns a number exactly, unless its exponent is absurdly large.
func rational(v *value) (*big.Rat, bool) {
	if v == nil || v.kind != '0' || len(v.text) > 100 {
		return nil, false
	}
	if i := strings.IndexAny(v.text, "eE"); i >= 0 {
		if n, err := strconv.Atoi(strings.TrimPrefix(v.text[i+1:], "+")); err != nil || n > 300 || n < -300 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(v.text)
}

// size returns a keyword that is a number of things, or the default.
func (c *schemas) size(v *value, key, path string, without int) (int, error) {
	e := v.get(key)
	if e == nil {
		return without, nil
	}
	r, ok := rational(e)
	if !ok || !r.IsInt() || r.Sign() < 0 {
		return 0, fmt.Errorf("%s/%s: a whole number from 0 belongs here, not %s", path, key, e)
	}
	if r.Cmp(big.NewRat(maxRepetition, 1)) > 0 {
		return without, c.loosen("%s/%s: %s is more than %d", path, key, e, maxRepetition)
	}
	return int(r.Num().Int64()), nil
}

// sizes returns a least and a most.
func (c *schemas) sizes(v *value, least, most, path string) (int, int, error) {
	a, err := c.size(v, least, path, 0)
	if err != nil {
		return 0, 0, err
	}
	b, err := c.size(v, most, path, unbounded)
	if err == nil && b != unbounded && b < a {
		err = fmt.Errorf("%s: %s %d is more than %s %d", path, least, a, most, b)
	}
	return a, b, err
}
