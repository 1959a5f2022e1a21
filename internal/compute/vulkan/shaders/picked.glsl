// Lists of blocks of positions, as compute.Seen has them: of each token and group the number of blocks, and then these. Numbers that no
// Select writes are brought into their bounds. An includer has lists[].

// listOf is where the list of a token's group begins, which has so many elements.
uint listOf(uint token, uint group, uint groups, uint list) { return (token * groups + group) * list; }

// pickedLen is the number of positions that a token at a position sees of the list that begins at at.
int pickedLen(uint at, uint list, uint block, int own) {
	int last = clamp(int(lists[at]), 1, int(list) - 1) - 1;
	return last * int(block) + clamp(own + 1 - int(lists[at + 1 + last]) * int(block), 1, int(block));
}

// picked is number i of these positions.
int picked(uint at, uint block, uint i, int own) {
	int b = clamp(int(lists[at + 1 + i / block]), 0, own / int(block));
	return min(b * int(block) + int(i % block), own);
}
