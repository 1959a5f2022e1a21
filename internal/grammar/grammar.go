// Package grammar constrains generated text: grammars in GBNF and JSON Schemas are compiled to a pushdown automaton
// over bytes, and from that to masks over a vocabulary's tokens. A mask allows exactly the tokens after which the text
// can still become a text of the grammar. Masks are cached by the automaton's state.
//
// Phases: ParseGBNF and FromSchema build expressions (expr), newAutomaton turns them into nodes without empty calls,
// Compile joins the automaton with a Vocabulary, and a State follows one sequence's text.
//
// A state is the set of stacks that the text so far may have led to. The tokens allowed in a state are found in a trie
// of the vocabulary, once for each position on top of a stack, and again only for tokens that reach below it.
package grammar

import (
	"context"
	"encoding/json"
	"fmt"
)

// Limits of grammars from outside. They bound time and memory, and are far above what people write.
const (
	maxText       = 4 << 20 // bytes of a GBNF text or a JSON Schema
	maxNesting    = 200     // of groups in GBNF, of values in a schema, of groups in a regular expression
	maxRules      = 100_000
	maxNodes      = 500_000   // of the automaton
	maxRepetition = 1_000_000 // n of {m,n}, minLength, maxItems and the like; counted, not expanded
	maxDepth      = 10_000    // frames of one stack: how deeply texts may nest
	maxStacks     = 5000      // stacks of an ambiguous grammar at one place of a text
	maxWork       = 5_000_000 // stacks looked at for one token
)

// Grammar is a set of texts. It is immutable and safe for concurrent use.
type Grammar struct {
	a *automaton
}

// Text constrains a text: to a grammar, or to JSON that is valid by a schema. At most one of the two is set; without,
// it may be any text.
type Text struct {
	GBNF   string          `json:",omitempty"`
	Schema json.RawMessage `json:",omitempty"`
	Loose  bool            `json:",omitempty"` // what Schema says and is not supported constrains nothing
}

// Any reports whether the text may be any.
func (t Text) Any() bool { return t.GBNF == "" && t.Schema == nil }

// Grammar returns the grammar of such texts. Text must not be any.
func (t Text) Grammar(ctx context.Context) (*Grammar, error) {
	g, _, err := t.Read(ctx)
	return g, err
}

// Read is Grammar, and lists the ignored keywords of a loose schema.
func (t Text) Read(ctx context.Context) (g *Grammar, loose []string, err error) {
	if t.Schema != nil {
		return FromSchema(ctx, t.Schema, t.Loose)
	}
	g, err = ParseGBNF(ctx, t.GBNF)
	return g, nil, err
}

// rule is a named expression.
type rule struct {
	name string
	body *expr
}

// newGrammar builds the automaton of rules; the first is the root.
func newGrammar(m *meter, rules []rule) (*Grammar, error) {
	if len(rules) > maxRules {
		return nil, fmt.Errorf("the grammar has %d rules, more than %d", len(rules), maxRules)
	}
	a, err := newAutomaton(m, rules)
	if err != nil {
		return nil, err
	}
	return &Grammar{a}, nil
}

// tokenLiteral names a token of the vocabulary: <[1000]> by its id, <think> by its text.
type tokenLiteral struct {
	id   int32
	text string // empty: by id
	not  bool   // every token except this one

	optional bool // the vocabulary need not have the token; only one without bytes counts
}

func (t tokenLiteral) String() string {
	s := fmt.Sprintf("<[%d]>", t.id)
	if t.text != "" {
		s = t.text
	}
	if t.not {
		s = "!" + s
	}
	return s
}
