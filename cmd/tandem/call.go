package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/console/rawjson"
)

// callFlags are the flags of tandem call.
type callFlags struct {
	timeout                       time.Duration
	timed                         bool // timeout was given
	idempotent, failover, several bool
	stream                        bool
	most                          int      // messages of a stream to receive; 0 for all
	metadata                      []string // key=value
	access                        accessFlags
}

// maxInput is the limit of the JSON read from standard input, in bytes. It is the default
// limit of a message.
const maxInput = 4 << 20

func newCall(sh *shell) *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "call [flags] TARGET METHOD [JSON]",
		Short: "make one call and print the answer",
		Long: "JSON is the method's argument; @FILE reads it from a file, - from standard input. Put -- before the\n" +
			"arguments if one begins with a minus sign. With --stream each JSON value is a message, and each\n" +
			"message that arrives is a line. Targets of other protocols than tandem's are\n" +
			otherTargets() + ". For netrpc,\n" +
			"the JSON says the types that net/rpc's gob wants: an object is a struct, 7 is an int, 7.0 a float, and\n" +
			`{"uint":7}, {"bytes":"AQID"} (base64) and {"map":{"key":7}} are what JSON has no notation for.`,
		Example: `tandem call tcp://127.0.0.1:8972 Arith.Mul '{"A":7,"B":8}'`,
		Args:    wantArgs(2, 3),
	}
	cmd.ValidArgsFunction = complete(false, true, contextTargets, f.access.methodNames)
	set := cmd.Flags()
	set.DurationVar(&f.timeout, "timeout", 5*time.Second, "time for the call, all attempts together; none for streams by default")
	set.BoolVar(&f.idempotent, "idempotent", false, "a second execution does no harm, so try again when in doubt")
	set.BoolVar(&f.failover, "failover", false, "try other instances when an attempt fails")
	set.BoolVarP(&f.several, "several", "n", false, "JSON is an array of the method's several arguments")
	set.BoolVarP(&f.stream, "stream", "s", false, "METHOD is a stream; with gRPC reflection that is known")
	set.IntVar(&f.most, "max", 0, "end a stream after this many messages have arrived; 0 for never")
	set.StringArrayVarP(&f.metadata, "metadata", "H", nil, "`key=value` to send along; may be repeated")
	f.access.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text := ""
		if len(args) > 2 {
			text = args[2]
		}
		f.timed = cmd.Flags().Changed("timeout")
		return interrupted(cmd.Context(), f.call(cmd.Context(), sh, [3]string{args[0], args[1], text}))
	}
	return cmd
}

// otherTargets returns the schemes of other protocols.
func otherTargets() string {
	return strings.Join(slices.Sorted(slices.Values(protocolNames())), "://, ") + "://"
}

// call makes the call at a target, of a method, with a JSON text.
func (f *callFlags) call(ctx context.Context, sh *shell, what [3]string) error {
	input, err := openInput(sh.in, what[2])
	if err != nil {
		return err
	}
	defer func() { _ = input.Close() }() // it was only read
	at, err := f.access.place(ctx, what[0])
	if err != nil {
		return err
	}
	m, err := at.messages(ctx, what[1])
	if err != nil {
		return err
	}
	stream := f.stream || m.streams()
	options, err := f.options(stream)
	if err != nil {
		return err
	}
	dial := m.dial()
	if f.failover {
		dial = append(dial, client.WithFailMode(client.Failover))
	}
	c, err := at.dial(dial...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // its error changes nothing here
	if stream {
		return f.converse(ctx, sh, &conversation{client: c, method: what[1], input: input, messages: m, options: options})
	}
	args, err := callArgs(input, f.several, m)
	if err != nil {
		return err
	}
	reply := m.reply()
	if err := c.Call(ctx, what[1], args, reply, options...); err != nil {
		return err
	}
	text, err := m.text(reply)
	if err == nil && text != "" {
		_, err = fmt.Fprintln(sh.out, text)
	}
	return err
}

// options returns the options of a call. A stream has a timeout only if one was given.
func (f *callFlags) options(stream bool) ([]tandem.CallOption, error) {
	var options []tandem.CallOption
	if f.timed || !stream {
		options = append(options, client.Timeout(f.timeout))
	}
	if f.idempotent {
		options = append(options, client.Idempotent())
	}
	for _, pair := range f.metadata {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("--metadata: want key=value, got %q", pair)
		}
		options = append(options, client.Metadata(key, value))
	}
	return options, nil
}

// openInput returns the arguments: the text itself, or those of a file for @FILE, and of in for
// "-".
func openInput(in io.Reader, text string) (io.ReadCloser, error) {
	if text == "-" {
		return io.NopCloser(in), nil
	}
	if name, is := strings.CutPrefix(text, "@"); is {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("arguments: %v", err)
		}
		return f, nil
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// callArgs returns the arguments in the JSON text that is read from in; none for an empty one.
func callArgs(in io.Reader, several bool, m messages) (any, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading the arguments: %w", err)
	}
	if len(data) > maxInput {
		return nil, usagef("the arguments have more than %d bytes", maxInput)
	}
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return m.nothing(), nil
	case !several && !json.Valid(data):
		return nil, usagef("%.60q is not JSON", data)
	case !several:
		return m.message(data)
	}
	if _, is := m.(inGob); is {
		return nil, usagef("--several: a method of net/rpc has one argument")
	}
	args, err := rawjson.Several(data)
	if err != nil {
		return nil, usagef("--several wants a JSON array: %v", err)
	}
	return args, nil
}
