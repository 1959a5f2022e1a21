// Command bcryptprimitives writes the DLL of that name, which Go's runtime needs and wine before 8.12 lacks:
// bcryptprimitives FILE. Its one function, ProcessPrng(buffer, length), is a forwarder to advapi32's SystemFunction036,
// which takes the same and fills buffer with random bytes, too.
//
// Source: Microsoft's PE Format, "The .edata Section".
package main

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"os"
)

const (
	library  = "bcryptprimitives.dll"
	function = "ProcessPrng"
	forward  = "ADVAPI32.SystemFunction036"
)

const (
	page      = 0x1000 // alignment of sections in memory
	block     = 0x200  // alignment of sections in the file
	start     = page   // relative address of the only section
	directory = 40     // bytes of the export directory, the section's first part
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bcryptprimitives FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], dll(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dll returns the library: headers in the first block of the file, exports in the second.
func dll() []byte {
	exports := exports()
	optional := pe.OptionalHeader64{
		Magic: 0x20b, ImageBase: 0x180000000, SectionAlignment: page, FileAlignment: block,
		MajorOperatingSystemVersion: 6, MajorSubsystemVersion: 6, Subsystem: pe.IMAGE_SUBSYSTEM_WINDOWS_CUI,
		SizeOfInitializedData: block, SizeOfImage: 2 * page, SizeOfHeaders: block,
		DllCharacteristics: pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT, NumberOfRvaAndSizes: 16,
	}
	optional.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT] = pe.DataDirectory{VirtualAddress: start, Size: uint32(len(exports))}
	section := pe.SectionHeader32{
		Name: [8]uint8{'.', 'e', 'd', 'a', 't', 'a'}, VirtualSize: uint32(len(exports)), VirtualAddress: start,
		SizeOfRawData: block, PointerToRawData: block, Characteristics: pe.IMAGE_SCN_CNT_INITIALIZED_DATA | pe.IMAGE_SCN_MEM_READ,
	}
	dos := [64]byte{0: 'M', 1: 'Z', 60: 64} // the signature is after it
	file := bytes.NewBuffer(nil)
	put(file, dos, [4]byte{'P', 'E'}, pe.FileHeader{
		Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1, SizeOfOptionalHeader: uint16(binary.Size(optional)),
		Characteristics: pe.IMAGE_FILE_DLL | pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE,
	}, optional, section)
	pad(file, block)
	file.Write(exports)
	pad(file, 2*block)
	return file.Bytes()
}

// exports returns the export directory, its three tables of one entry each, and the names.
func exports() []byte {
	const (
		addresses = start + directory
		names     = addresses + 4
		ordinals  = names + 4
		texts     = ordinals + 2
	)
	own := uint32(texts)
	exported := own + uint32(len(library)) + 1
	target := exported + uint32(len(function)) + 1
	b := bytes.NewBuffer(nil)
	put(b, [3]uint32{}, own, uint32(1), uint32(1), uint32(1), uint32(addresses), uint32(names), uint32(ordinals))
	put(b, target, exported, uint16(0)) // an address within the section is a forwarder's text
	fmt.Fprintf(b, "%s\x00%s\x00%s\x00", library, function, forward)
	return b.Bytes()
}

// put appends values in little-endian form; a bytes.Buffer takes all.
func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		_ = binary.Write(b, binary.LittleEndian, v)
	}
}

func pad(b *bytes.Buffer, to int) { b.Write(make([]byte, to-b.Len())) }
