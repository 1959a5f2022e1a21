package flags

import "github.com/urfave/cli/v3"

// Subjects of flags, in the order of --help-all. A flag without one belongs to what its command does.
const (
	ModelSubject    = "Model"
	FormSubject     = "Form of the text"
	SamplingSubject = "Choice of tokens"
	ChatSubject     = "Conversation"
	ContextSubject  = "Context"
	MemorySubject   = "Memory and threads"
	GPUSubject      = "GPUs"
	NeuronSubject   = "Neurons and experts"
	DraftSubject    = "Draft tokens"
	PictureSubject  = "Pictures"
	NetworkSubject  = "Network"
	LogSubject      = "Log and trace"
)

var Subjects = []string{ModelSubject, "", ChatSubject, PictureSubject, FormSubject, SamplingSubject, ContextSubject, MemorySubject, GPUSubject, NeuronSubject, DraftSubject, NetworkSubject, LogSubject}

// About gives a subject to the flags that have none.
func About(subject string, flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		if f, ok := f.(cli.CategorizableFlag); ok && f.GetCategory() == "" {
			f.SetCategory(subject)
		}
	}
	return flags
}
