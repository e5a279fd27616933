package server

import "io"

// aheadPiece is how much of a message is read at a time while it waits for memory, in bytes.
const aheadPiece = 16 << 10

// ahead is the part of a message that was read while it waited for memory.
type ahead struct {
	pieces [][]byte
}

// readPiece reads the next piece from r, shorter if an error ends it.
func (a *ahead) readPiece(r io.Reader) error {
	piece := make([]byte, aheadPiece)
	n := 0
	var err error
	for n < len(piece) && err == nil {
		var more int
		more, err = r.Read(piece[n:])
		n += more
	}
	if n > 0 {
		a.pieces = append(a.pieces, piece[:n])
	}
	return err
}

// Read returns what was read ahead, and drops it.
func (a *ahead) Read(b []byte) (int, error) {
	if len(a.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, a.pieces[0])
	if a.pieces[0] = a.pieces[0][n:]; len(a.pieces[0]) == 0 {
		a.pieces[0] = nil // so that its memory is free at once
		a.pieces = a.pieces[1:]
	}
	return n, nil
}
