package compress_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tandem-rpc/tandem/compress"
)

func ExampleGzip() {
	c := compress.Gzip()
	message := []byte(strings.Repeat("tandem ", 1000))
	packed, err := c.Compress(nil, message)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := c.Decompress(nil, packed, 1<<20)
	fmt.Println(len(packed) < 100, string(again) == string(message), err)
	// Output: true true <nil>
}

func ExampleDeflate() {
	c := compress.Deflate()
	packed, _ := c.Compress(nil, []byte("hello"))
	message, err := c.Decompress([]byte("it says: "), packed, 100)
	fmt.Printf("%s %v\n", message, err)
	// Output: it says: hello <nil>
}

// A message that would exceed the limit is refused before it takes the memory.
func ExampleErrTooLarge() {
	c := compress.Deflate()
	bomb, _ := c.Compress(nil, make([]byte, 10<<20))
	_, err := c.Decompress(nil, bomb, 1<<20)
	fmt.Println(errors.Is(err, compress.ErrTooLarge), err)
	// Output: true deflate: decompressed message too large: limit 1048576 bytes
}
