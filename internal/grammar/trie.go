package grammar

// trie holds tokens' bytes, with its nodes in depth-first order: the nodes below node i are i+1 to skip-1. The root is
// not stored.
type trie struct {
	nodes  []trieNode
	order  []int32 // tokens sorted by their bytes: those at and below a node are neighbours
	groups []group
	deep   int32 // bytes of the longest token
}

type trieNode struct {
	skip   int32 // the first node that is not below
	tokens int32 // tokens before the node, in order
	group  int32 // index of groups for nodes with many tokens, -1 for others
	depth  uint16
	char   byte
	ends   bool // a token ends here
}

// group describes a node with many tokens below it, which can be allowed together if the text may repeat all their
// bytes.
type group struct {
	bytes byteSet // bytes of the nodes below
	last  int32   // tokens before the node's end, in order
}

// minGroup is from how many nodes on a group pays: a check of 256 bits against walking the nodes.
const minGroup = 16

// groupDepth bounds the depth of groups, because nodes below it have few tokens.
const groupDepth = 4

// longestToken bounds what a trie holds; a node's depth takes 16 bits.
const longestToken = 1<<16 - 1

// newTrie inserts the tokens of order that keep accepts; order is sorted by bytes.
func newTrie(tokens [][]byte, order []int32) trie {
	t := trie{order: order}
	var path []int32 // the nodes of the last token
	var last []byte
	leave := func(depth int, tokens int32) {
		for _, n := range path[depth:] {
			t.close(n, tokens)
		}
		path = path[:depth]
	}
	for i, id := range order {
		piece := tokens[id]
		shared := 0
		for shared < len(last) && shared < len(piece) && last[shared] == piece[shared] {
			shared++
		}
		leave(shared, int32(i))
		for d := shared; d < len(piece); d++ {
			path = append(path, int32(len(t.nodes)))
			t.nodes = append(t.nodes, trieNode{tokens: int32(i), group: -1, depth: uint16(d + 1), char: piece[d]})
		}
		t.nodes[path[len(piece)-1]].ends = true
		t.deep = max(t.deep, int32(len(piece)))
		last = piece
	}
	leave(0, int32(len(order)))
	t.nodes = append(t.nodes, trieNode{tokens: int32(len(order)), group: -1}) // after the last, for ending's sake
	return t
}

// close ends node n; all nodes below it are known.
func (t *trie) close(n, tokens int32) {
	t.nodes[n].skip = int32(len(t.nodes))
	if len(t.nodes)-int(n) <= minGroup || t.nodes[n].depth > groupDepth {
		return
	}
	g := group{last: tokens}
	for _, m := range t.nodes[n+1:] {
		g.bytes.add(m.char, m.char)
	}
	t.nodes[n].group = int32(len(t.groups))
	t.groups = append(t.groups, g)
}

// ending returns the tokens that end at node n: those before the next node's.
func (t *trie) ending(n int32) []int32 {
	if !t.nodes[n].ends {
		return nil
	}
	return t.order[t.nodes[n].tokens:t.nodes[n+1].tokens]
}
