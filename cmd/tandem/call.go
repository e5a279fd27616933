package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
)

// callConfig is the command line of call.
type callConfig struct {
	target, method string
	args           any
	client         []client.Option
	options        []tandem.CallOption
}

// maxInput is the limit of the JSON read from standard input, in bytes. It is the default
// limit of a message.
const maxInput = 4 << 20

func runCall(ctx context.Context, sh *shell, args []string) error {
	cfg, err := parseCall(sh, args)
	if err != nil {
		return err
	}
	c, err := client.Dial(cfg.target, append(withRegistries(), cfg.client...)...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // its error changes nothing here
	var answer []byte
	if err := c.Call(ctx, cfg.method, cfg.args, &answer, cfg.options...); err != nil {
		return interrupted(ctx, err)
	}
	text, err := answerText(answer)
	if err == nil && text != "" {
		_, err = fmt.Fprintln(sh.out, text)
	}
	return err
}

func parseCall(sh *shell, args []string) (*callConfig, error) {
	cfg := new(callConfig)
	set := newFlags("call")
	timeout := set.Duration("timeout", 5*time.Second, "time for the call, all attempts together")
	idempotent := set.Bool("idempotent", false, "a second execution does no harm, so try again when in doubt")
	failover := set.Bool("failover", false, "try other instances when an attempt fails")
	several := set.Bool("n", false, "JSON is an array of the method's several arguments")
	set.Func("metadata", "`key=value` to send along; may be repeated", cfg.addMetadata)
	if err := parse(set, sh, args); err != nil {
		return nil, err
	}
	if set.NArg() < 2 || set.NArg() > 3 {
		return nil, usagef("call wants TARGET METHOD [JSON], after the flags; got %d arguments", set.NArg())
	}
	cfg.target, cfg.method = set.Arg(0), set.Arg(1)
	cfg.client = []client.Option{client.WithCodec(rawJSON{codec.JSON()})}
	cfg.options = append(cfg.options, client.Timeout(*timeout))
	if *idempotent {
		cfg.options = append(cfg.options, client.Idempotent())
	}
	if *failover {
		cfg.client = append(cfg.client, client.WithFailMode(client.Failover))
	}
	var err error
	cfg.args, err = callArgs(sh.in, set.Arg(2), *several)
	return cfg, err
}

func (c *callConfig) addMetadata(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok || key == "" {
		return fmt.Errorf("want key=value, got %q", pair)
	}
	c.options = append(c.options, client.Metadata(key, value))
	return nil
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
		return nil, usagef("-n wants a JSON array: %v", err)
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
