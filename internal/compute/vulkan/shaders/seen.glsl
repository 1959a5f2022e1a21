// The positions that a row attends to, as compute.Attention.Span gives them. An includer has the step's params.

// With IN_PARTS in a window, positions are divided into parts of the rest of its value, and a row attends to its own part only.
const uint IN_PARTS = 0x80000000;

// firstSeen is the first of them. window: positions that it sees; 0: all.
int firstSeen(uint row, uint window, bool later) {
	int own = int(position(row));
	if (window == 0)
		return 0;
	if ((window & IN_PARTS) != 0)
		return own - own % int(window - IN_PARTS);
	return max(later ? own - int(window) / 2 : own + 1 - int(window), 0);
}

// lastSeen is the last of them.
int lastSeen(uint row, uint window, bool later) {
	int own = int(position(row));
	if (!later)
		return own;
	int end = int(last(row));
	return window == 0 ? end : min(end, own + int(window) / 2);
}
