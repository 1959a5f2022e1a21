// Rows of layers that keep those of the last of every EVERY positions, one behind the other in a page.

// rowWord is the word in which the row of a position begins, which is the last of a block.
uint rowWord(uint page, uint position, uint type, uint cols) {
	const uint every = max(EVERY, 1);
	return (page * max(64 / every, 1) + position % 64 / every) * kvWords(type, cols);
}
