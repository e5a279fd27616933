package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/registry"
)

// completeTimeout bounds what a completion asks registries and servers: the user waits for it.
const completeTimeout = 900 * time.Millisecond

// completions are the words that may come next, each with a description after a tab.
type completions = []cobra.Completion

// completer returns the words for an argument, after the arguments before it.
type completer func(ctx context.Context, before []string) completions

// complete makes the function of a command from completers, one for each argument; the last one
// is for all further arguments if more is set. Words that don't fit what has been typed are left
// out. files lets the shell complete names of files where there are no words.
func complete(more, files bool, each ...completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, before []string, typed string) (completions, cobra.ShellCompDirective) {
		at := len(before)
		if at >= len(each) && more {
			at = len(each) - 1
		}
		otherwise := cobra.ShellCompDirectiveNoFileComp
		if files {
			otherwise = cobra.ShellCompDirectiveDefault
		}
		if at >= len(each) {
			return nil, otherwise
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		var fit completions
		directive := cobra.ShellCompDirectiveNoFileComp
		for _, word := range each[at](ctx, before) {
			if strings.HasPrefix(word, typed) {
				fit = append(fit, word)
			}
		}
		if len(fit) == 0 {
			return nil, otherwise
		}
		for _, word := range fit {
			name, _, _ := strings.Cut(word, "\t")
			if strings.HasSuffix(name, ".") || strings.HasSuffix(name, "://") {
				directive |= cobra.ShellCompDirectiveNoSpace // there is more to type
			}
		}
		return fit, directive
	}
}

// contextTargets completes targets: the contexts.
func contextTargets(context.Context, []string) completions {
	_, file, err := loadContexts()
	if err != nil {
		return nil
	}
	var words completions
	if c, ok := file.Contexts[file.Current]; ok {
		words = append(words, cobra.CompletionWithDesc("@", registry.Redact(c.Target)))
	}
	for _, name := range slices.Sorted(maps.Keys(file.Contexts)) {
		words = append(words, cobra.CompletionWithDesc("@"+name, registry.Redact(file.Contexts[name].Target)))
	}
	return words
}

// contextNames completes the names of contexts.
func contextNames(ctx context.Context, before []string) completions {
	var words completions
	for _, word := range contextTargets(ctx, before) {
		if name := strings.TrimPrefix(word, "@"); !strings.HasPrefix(name, "\t") {
			words = append(words, name)
		}
	}
	return words
}

// methodNames completes the methods of the target before them. If its servers do not describe
// them, the services come from the registry.
func (f *accessFlags) methodNames(ctx context.Context, before []string) completions {
	c, err := contextOf(before[0])
	if err != nil {
		return nil
	}
	c = f.over(c)
	c.TokenCommand = nil // it may ask for a password
	at, err := placeOf(ctx, c)
	if err != nil {
		return nil
	}
	var words completions
	methods, err := at.methods(ctx, describeTimeout)
	for i := range methods {
		words = append(words, cobra.CompletionWithDesc(methods[i].Name, methods[i].Kind+" "+methods[i].Request.String()))
	}
	if err == nil {
		return words
	}
	list, err := at.instances(ctx)
	if err != nil {
		return nil
	}
	for _, service := range listOf(at.target, list, time.Now()).Services {
		words = append(words, service+".")
	}
	return words
}

// serviceNames completes the services and methods of the target before them.
func (f *accessFlags) serviceNames(ctx context.Context, before []string) completions {
	words := f.methodNames(ctx, before)
	for _, word := range slices.Clone(words) {
		name, _, _ := strings.Cut(word, "\t")
		if dot := strings.LastIndexByte(name, '.'); dot > 0 && !slices.Contains(words, name[:dot]) {
			words = append(words, name[:dot])
		}
	}
	return words
}

// instanceIDs completes the instances that the target before them lists.
func instanceIDs(ctx context.Context, before []string) completions {
	target, err := targetOf(before[0])
	if err != nil {
		return nil
	}
	list, err := (&place{target: target}).instances(ctx)
	if err != nil {
		return nil
	}
	var words completions
	for i := range list {
		if !slices.Contains(before[1:], list[i].ID) {
			words = append(words, cobra.CompletionWithDesc(list[i].ID, strings.Trim(list[i].Zone+" "+list[i].Version, " ")))
		}
	}
	return words
}
