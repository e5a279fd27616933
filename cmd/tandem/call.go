package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
)

// callFlags are the flags of tandem call.
type callFlags struct {
	timeout                       time.Duration
	idempotent, failover, several bool
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
		Long: "JSON is the method's argument; - reads it from standard input. Put -- before the\n" +
			"arguments if one begins with a minus sign, such as a negative number.",
		Example: `tandem call tcp://127.0.0.1:8972 Arith.Mul '{"A":7,"B":8}'`,
		Args:    wantArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := ""
			if len(args) > 2 {
				text = args[2]
			}
			return f.call(cmd.Context(), sh, [3]string{args[0], args[1], text})
		},
	}
	set := cmd.Flags()
	set.DurationVar(&f.timeout, "timeout", 5*time.Second, "time for the call, all attempts together")
	set.BoolVar(&f.idempotent, "idempotent", false, "a second execution does no harm, so try again when in doubt")
	set.BoolVar(&f.failover, "failover", false, "try other instances when an attempt fails")
	set.BoolVarP(&f.several, "several", "n", false, "JSON is an array of the method's several arguments")
	set.StringArrayVarP(&f.metadata, "metadata", "H", nil, "`key=value` to send along; may be repeated")
	f.access.add(cmd)
	return cmd
}

// call makes the call at a target, of a method, with a JSON text.
func (f *callFlags) call(ctx context.Context, sh *shell, what [3]string) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	args, err := callArgs(sh.in, what[2], f.several)
	if err != nil {
		return err
	}
	at, err := f.access.place(ctx, what[0])
	if err != nil {
		return err
	}
	dial := append(at.options(), client.WithCodec(rawJSON{codec.JSON()}))
	if f.failover {
		dial = append(dial, client.WithFailMode(client.Failover))
	}
	c, err := client.Dial(at.target, dial...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // its error changes nothing here
	var answer []byte
	if err := c.Call(ctx, what[1], args, &answer, options...); err != nil {
		return interrupted(ctx, err)
	}
	text, err := answerText(answer)
	if err == nil && text != "" {
		_, err = fmt.Fprintln(sh.out, text)
	}
	return err
}

func (f *callFlags) options() ([]tandem.CallOption, error) {
	options := []tandem.CallOption{client.Timeout(f.timeout)}
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

// callArgs returns the arguments in the JSON text: none for "", and for "-" those that are read
// from in.
func callArgs(in io.Reader, text string, several bool) (any, error) {
	if text == "-" {
		data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		if len(data) > maxInput {
			return nil, usagef("standard input has more than %d bytes", maxInput)
		}
		text = string(data)
	}
	switch {
	case text == "":
		return tandem.Args{}, nil
	case !several && json.Valid([]byte(text)):
		return json.RawMessage(text), nil
	case !several:
		return nil, usagef("%.60q is not JSON", text)
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, usagef("--several wants a JSON array: %v", err)
	}
	args := make(tandem.Args, len(list))
	for i, v := range list {
		args[i] = v
	}
	return args, nil
}

// rawJSON is the codec "json", except that it decodes into a byte slice by copying the message.
// The response of a method with several results, or none, is not JSON, which only the response
// itself shows.
type rawJSON struct{ tandem.Codec }

func (c rawJSON) Decode(src []byte, v any) error {
	if p, ok := v.(*[]byte); ok {
		*p = append([]byte(nil), src...)
		return nil
	}
	return c.Codec.Decode(src, v)
}

// answerText returns a response as JSON: unchanged, as an array for several results, or "" for
// none.
func answerText(answer []byte) (string, error) {
	if json.Valid(answer) {
		return strings.TrimSpace(string(answer)), nil
	}
	count, n := binary.Uvarint(answer)
	if n <= 0 || count > uint64(len(answer)) {
		return "", tandem.Errorf(tandem.Internal, "the answer is not JSON: %.60q", answer)
	}
	if count == 0 {
		return "", nil
	}
	list := make([]json.RawMessage, count)
	results := make(tandem.Results, count)
	for i := range list {
		results[i] = &list[i]
	}
	if err := codec.Decode(codec.JSON(), answer, results); err != nil {
		return "", tandem.Errorf(tandem.Internal, "the answer is neither JSON nor several results: %w", err)
	}
	text, err := json.Marshal(list)
	return string(text), err
}
