package grammar

import (
	"context"
	"fmt"
	"slices"
)

// Expr is a set of texts, a part of a grammar, made by a Builder. Its zero value is invalid.
type Expr struct{ e *expr }

// A Builder composes a grammar of texts, tokens and JSON Schemas.
type Builder struct {
	m      *meter
	rules  []rule           // the first is the root, made last
	made   map[string]Expr  // markers and expressions that end with one, by name
	shared map[string]int32 // rules of schemas that mean the same in every document (see schemas.known)
}

// NewBuilder returns a builder without any rule. When ctx has ended, or the grammar is too large, all its methods
// return errors.
func NewBuilder(ctx context.Context) *Builder {
	return &Builder{m: newMeter(ctx), rules: []rule{{name: "root"}}, made: map[string]Expr{}, shared: map[string]int32{}}
}

// Err returns why b cannot make its grammar any more: its context has ended, or the grammar is too large.
func (b *Builder) Err() error { return b.m.err }

// Literal is the text s.
func Literal(s string) Expr { return Expr{literal(s)} }

// OneOf matches one of the characters of s.
func OneOf(s string) Expr { return Expr{oneOf(s)} }

// Sequence matches all parts, one after the other.
func Sequence(parts ...Expr) Expr { return Expr{sequence(bare(parts)...)} }

// Choice matches one of the parts; without parts, nothing.
func Choice(parts ...Expr) Expr { return Expr{choice(bare(parts)...)} }

// Repeat matches least to most texts of e in a row; a negative most means no limit.
func Repeat(e Expr, least, most int) Expr { return Expr{repeat(e.e, least, max(most, unbounded))} }

// Optional is a text of e, or nothing.
func Optional(e Expr) Expr { return Expr{optional(e.e)} }

func bare(parts []Expr) []*expr {
	out := make([]*expr, len(parts))
	for i, p := range parts {
		out[i] = p.e
	}
	return out
}

// Rule names e, so that it may be part of several others and is compiled once.
func (b *Builder) Rule(name string, e Expr) Expr {
	b.m.take(ruleBytes)
	b.rules = append(b.rules, rule{name, e.e})
	return Expr{reference(int32(len(b.rules) - 1))}
}

// Recursive returns the result of make, which may contain itself.
func (b *Builder) Recursive(name string, make func(self Expr) Expr) Expr {
	self := b.Rule(name, Expr{})
	b.rules[self.e.index].body = make(self).e
	return self
}

// Marker matches the text s, or the token with that text that stands for no bytes, if the vocabulary has it.
func (b *Builder) Marker(s string) Expr {
	return b.once("marker "+s, func() Expr { return Expr{marker(s)} })
}

func (b *Builder) once(name string, make func() Expr) Expr {
	e, ok := b.made[name]
	if !ok {
		e = b.Rule(name, make())
		b.made[name] = e
	}
	return e
}

func markerToken(s string) *expr {
	return &expr{op: opToken, token: tokenLiteral{text: s, optional: true}}
}

func marker(s string) *expr { return choice(literal(s), markerToken(s)) }

// Text matches the texts that t allows. t must not allow all.
func (b *Builder) Text(t Text) (Expr, error) {
	if t.Schema != nil {
		s, err := b.Schema(t.Schema)
		if err != nil {
			return Expr{}, err
		}
		s.c.tolerant = t.Loose
		return s.Part("#")
	}
	rules, root, err := readGBNF(b.m, t.GBNF, b.rules)
	if err != nil {
		return Expr{}, err
	}
	b.rules = rules
	return Expr{reference(root)}, nil
}

// Schema is a JSON Schema for parts of a grammar.
type Schema struct {
	b *Builder
	c schemas
}

// Schema reads a JSON Schema.
func (b *Builder) Schema(schema []byte) (*Schema, error) {
	root, err := readSchema(b.m, schema)
	if err != nil {
		return nil, err
	}
	return &Schema{b: b, c: schemas{m: b.m, root: root, known: map[string]int32{}, shared: b.shared}}, nil
}

// Loosen ignores unsupported keywords, like a tolerant FromSchema.
func (s *Schema) Loosen() { s.c.tolerant = true }

// Loose returns the ignored keywords of the parts so far.
func (s *Schema) Loose() []string { return s.c.loose }

// Part is the JSON texts that are valid by the part of the schema that pointer names: # for all of it, #/properties/x.
// See FromSchema.
func (s *Schema) Part(pointer string) (Expr, error) {
	known := len(s.c.added)
	s.c.rules = s.b.rules
	part, at, err := s.c.resolve(&value{kind: '"', text: pointer}, "#")
	if err != nil {
		return Expr{}, err
	}
	e, err := s.c.schema(part, at)
	if err != nil {
		s.c.forget(known) // the rules are dropped
		return Expr{}, fmt.Errorf("JSON Schema, %w", err)
	}
	s.b.rules = s.c.rules
	return Expr{e}, nil
}

// PythonPart is Part with Python's literals in addition to JSON's: True, False and None, and single quotes around
// strings that have no other constraint than an enum.
func (s *Schema) PythonPart(pointer string) (Expr, error) {
	s.c.python = true
	defer func() { s.c.python = false }()
	return s.Part(pointer)
}

// Grammar returns the grammar of root's texts.
func (b *Builder) Grammar(root Expr) (*Grammar, error) {
	rules := slices.Clone(b.rules)
	rules[0].body = root.e
	return newGrammar(b.m, rules)
}
