#include "textflag.h"

// func spinWhile(word *atomic.Uint32, old uint32, pauses int) uint32
TEXT ·spinWhile(SB), NOSPLIT, $0-28
	MOVQ word+0(FP), AX
	MOVL old+8(FP), BX
	MOVQ pauses+16(FP), CX

loop:
	MOVL  (AX), DX
	CMPL  DX, BX
	JNE   changed
	PAUSE
	DECQ  CX
	JNZ   loop

changed:
	MOVL DX, ret+24(FP)
	RET
