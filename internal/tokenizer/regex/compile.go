package regex

import "fmt"

// program is an expression as steps, from which a machine makes its states. A reversed one reads the text from its end.
type program struct {
	steps   []step
	sets    []set
	looks   []*node // looks of more than a character, in the order of their evaluation
	reverse bool
}

type step struct {
	op   op
	x, y int // what follows; split prefers x
	set  int // char, next, previous: index of program.sets; whole: index of looks
	not  bool
}

type op uint8

const (
	opMatch op = iota
	opChar     // reads a character of the set
	opSplit
	opNext     // the character to be read next is of the set
	opPrevious // the last read character is in the set
	opEdge     // exactly one of the two is a letter of a word
	opWhole    // a look holds here
)

func (p *program) add(s step) (int, error) {
	if len(p.steps) >= maxNodes {
		return 0, fmt.Errorf("the expression is too long")
	}
	p.steps = append(p.steps, s)
	return len(p.steps) - 1, nil
}

func (p *program) intern(s set) int {
	p.sets = append(p.sets, s)
	return len(p.sets) - 1
}

// compile enters n before the step that follows it and returns its first step.
func (p *program) compile(n *node, next int) (int, error) {
	switch n.kind {
	case chars:
		return p.add(step{op: opChar, set: p.intern(n.set), x: next})
	case sequence:
		var err error
		for i := range n.sub {
			sub := n.sub[len(n.sub)-1-i]
			if p.reverse {
				sub = n.sub[i]
			}
			if next, err = p.compile(sub, next); err != nil {
				return 0, err
			}
		}
		return next, nil
	case choice:
		first, err := p.compile(n.sub[len(n.sub)-1], next)
		for i := len(n.sub) - 2; i >= 0 && err == nil; i-- {
			var x int
			if x, err = p.compile(n.sub[i], next); err == nil {
				first, err = p.add(step{op: opSplit, x: x, y: first})
			}
		}
		return first, err
	case repeat:
		return p.repetition(n, next)
	case boundary, notBoundary:
		return p.add(step{op: opEdge, set: p.intern(word()), not: n.kind == notBoundary, x: next})
	}
	if s, ok := single(n.sub[0]); ok {
		kind := opNext
		if n.behind != p.reverse {
			kind = opPrevious
		}
		return p.add(step{op: kind, set: p.intern(s), not: n.negative, x: next})
	}
	for i, l := range p.looks {
		if l == n {
			return p.add(step{op: opWhole, set: i, not: n.negative, x: next})
		}
	}
	return 0, fmt.Errorf("a look is not listed")
}

func (p *program) repetition(n *node, next int) (int, error) {
	fork := func(body, past int) step {
		if n.lazy {
			return step{op: opSplit, x: past, y: body}
		}
		return step{op: opSplit, x: body, y: past}
	}
	copies := n.least
	var err error
	if n.most < 0 {
		// At least once: a body that may be empty must not be entered through itself, or its preference is lost.
		loop, err := p.add(step{})
		if err != nil {
			return 0, err
		}
		body, err := p.compile(n.sub[0], loop)
		if err != nil {
			return 0, err
		}
		p.steps[loop] = fork(body, next)
		if copies > 0 {
			next, copies = body, copies-1
		} else if next, err = p.add(fork(body, next)); err != nil {
			return 0, err
		}
	}
	past := next // leaving an optional part leaves all those after it
	for range n.most - n.least {
		body, err := p.compile(n.sub[0], next)
		if err != nil {
			return 0, err
		}
		if next, err = p.add(fork(body, past)); err != nil {
			return 0, err
		}
	}
	for range copies {
		if next, err = p.compile(n.sub[0], next); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// single returns n's set, if n is one character.
func single(n *node) (set, bool) {
	switch {
	case n.kind == chars:
		return n.set, true
	case n.kind == sequence && len(n.sub) == 1:
		return single(n.sub[0])
	case n.kind != choice:
		return nil, false
	}
	var all set
	for _, sub := range n.sub {
		s, ok := single(sub)
		if !ok {
			return nil, false
		}
		all = union(all, s)
	}
	return all, true
}

// wholeLooks lists the looks of more than a character within n, inner ones before those that contain them.
func wholeLooks(n *node, list []*node) []*node {
	for _, sub := range n.sub {
		list = wholeLooks(sub, list)
	}
	if n.kind == look {
		if _, ok := single(n.sub[0]); !ok {
			list = append(list, n)
		}
	}
	return list
}
