// Package emulate runs programs that use instructions of x86 processors which this one lacks: the tiles of AMX and the
// VEX forms of VPDPBUSD and VPDPWSSD. It traces the program, computes what raised an illegal instruction as Intel's
// manual defines it, and lets the program go on. It is for tests: an instruction takes some microseconds.
package emulate
