package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// answers asks all questions, some at a time. What the binary refuses is an answer, too: it is recorded and printed.
func (s *subject) answers(ctx context.Context, all []question, jobs int) ([]answer, error) {
	list := make([]answer, len(all))
	err := each(ctx, "asking", len(all), jobs, func(i int) error {
		value, err := all[i].ask(ctx, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", all[i].name, err)
			value = "failed"
		}
		list[i] = answer{all[i].name, value}
		return nil
	})
	if err != nil {
		return nil, err
	}
	point(all, list)
	return list, nil
}

// point replaces an answer by the name of the question that it should equal, if it does.
func point(all []question, list []answer) {
	values := map[string]string{}
	for _, a := range list {
		values[a.name] = a.value
	}
	for i, q := range all {
		if value, ok := values[q.same]; ok && value == list[i].value {
			list[i].value = "the same as " + q.same
		}
	}
}

// each calls do(0) to do(n-1), some at a time, and shows how far it is. It stops at the first error and returns it.
func each(ctx context.Context, what string, n, jobs int, do func(i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done, finish := progress(what, n)
	defer finish()
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(jobs, n) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					stop(err)
					return
				}
				done()
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// progress shows a bar on a terminal, and a line for each tenth elsewhere. done is called after each of n, by any
// goroutine.
func progress(what string, n int) (done, finish func()) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		bar := progressbar.NewOptions(n, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())
		return func() { _ = bar.Add(1) }, func() { _ = bar.Finish() }
	}
	var count atomic.Int64
	return func() {
		if i := int(count.Add(1)); i*10/n > (i-1)*10/n {
			fmt.Fprintf(os.Stderr, "%s: %d of %d\n", what, i, n)
		}
	}, func() {}
}
