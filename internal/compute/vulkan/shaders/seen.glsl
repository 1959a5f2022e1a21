// The positions that a row attends to, as compute.Params.Span gives them. An includer has the step's params.

// With IN_PARTS in a window, positions are divided into parts of the rest of its value, and a row attends to its own part only.
const uint IN_PARTS = 0x80000000;

// With BOUNDED in it, a row sees the positions of its bounds, as far as the rest of its value reaches back.
const uint BOUNDED = 0x40000000;

// windowFirst is the first position that a row sees, but for bounds. window: positions that it sees; 0: all.
int windowFirst(uint row, uint window, bool later) {
	int own = int(position(row));
	if (window == 0)
		return 0;
	if ((window & IN_PARTS) != 0)
		return own - own % int(window - IN_PARTS);
	return max(later ? own - int(window) / 2 : own + 1 - int(window), 0);
}

// firstSeen is the first position that a row sees.
int firstSeen(uint row, uint window, bool later) {
	if ((window & BOUNDED) == 0)
		return windowFirst(row, window, later);
	return max(windowFirst(row, window - BOUNDED, false), int(boundsFirst(row)));
}

// lastSeen is the last of them.
int lastSeen(uint row, uint window, bool later) {
	if ((window & BOUNDED) != 0)
		return int(boundsLast(row));
	int own = int(position(row));
	if (!later)
		return own;
	int end = int(last(row));
	return window == 0 ? end : min(end, own + int(window) / 2);
}
