package codecs

import (
	"encoding/binary"
	"errors"

	"github.com/tandem-rpc/tandem/bench/message"
)

// Record has the fields of the seeds' message and methods as gencode writes
// them: fixed sizes, no field numbers, and lengths before what varies.
type Record struct {
	Field1, Field4, Field7, Field9, Field18, Field102, Field103, Field129 string

	Field2, Field3, Field6, Field16, Field23, Field25, Field29, Field60, Field67, Field68              int32
	Field100, Field101, Field104, Field128, Field130, Field131, Field150, Field271, Field272, Field280 int32

	Field12, Field13, Field14, Field17, Field24, Field30, Field59, Field78, Field80, Field81 bool

	Field22 int64
	Field5  []uint64
}

var errCutOff = errors.New("record: the message is cut off")

func (m *Record) texts() [8]*string {
	return [...]*string{&m.Field1, &m.Field4, &m.Field7, &m.Field9, &m.Field18, &m.Field102, &m.Field103, &m.Field129}
}

func (m *Record) numbers() [20]*int32 {
	return [...]*int32{
		&m.Field2, &m.Field3, &m.Field6, &m.Field16, &m.Field23, &m.Field25, &m.Field29, &m.Field60, &m.Field67, &m.Field68,
		&m.Field100, &m.Field101, &m.Field104, &m.Field128, &m.Field130, &m.Field131, &m.Field150, &m.Field271, &m.Field272, &m.Field280,
	}
}

func (m *Record) flags() [10]*bool {
	return [...]*bool{
		&m.Field12, &m.Field13, &m.Field14, &m.Field17, &m.Field24, &m.Field30, &m.Field59, &m.Field78, &m.Field80, &m.Field81,
	}
}

// newRecord has the values of the seeds' message.
func newRecord() *Record {
	from, m := message.New(), new(Record)
	for _, s := range m.texts() {
		*s = from.GetField1()
	}
	for _, n := range m.numbers() {
		*n = from.GetField2()
	}
	for _, f := range m.flags() {
		*f = from.GetField12()
	}
	m.Field22 = from.GetField22()
	return m
}

// Size returns the length of the encoding in bytes.
func (m *Record) Size() uint64 {
	size := 20*4 + 10 + 8 + uvarintSize(len(m.Field5)) + 8*len(m.Field5)
	for _, s := range m.texts() {
		size += uvarintSize(len(*s)) + len(*s)
	}
	return uint64(size) //nolint:gosec // lengths
}

func uvarintSize(n int) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// Marshal writes the encoding over b where b has the room, else to new memory.
func (m *Record) Marshal(b []byte) ([]byte, error) {
	if size := int(m.Size()); cap(b) < size { //nolint:gosec // a message that fits in memory
		b = make([]byte, 0, size)
	}
	b = b[:0]
	for _, s := range m.texts() {
		b = binary.AppendUvarint(b, uint64(len(*s)))
		b = append(b, *s...)
	}
	for _, n := range m.numbers() {
		b = binary.LittleEndian.AppendUint32(b, uint32(*n)) //nolint:gosec // the same bits
	}
	for _, f := range m.flags() {
		b = append(b, bit(*f))
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Field22)) //nolint:gosec // the same bits
	b = binary.AppendUvarint(b, uint64(len(m.Field5)))
	for _, v := range m.Field5 {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b, nil
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// Unmarshal reads an encoding and returns how many bytes it has.
func (m *Record) Unmarshal(b []byte) (uint64, error) {
	all := len(b)
	for _, s := range m.texts() {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) { //nolint:gosec // k is at most the length
			return 0, errCutOff
		}
		*s, b = string(b[k:k+int(n)]), b[k+int(n):] //nolint:gosec // at most the length
	}
	if len(b) < 20*4+10+8+1 {
		return 0, errCutOff
	}
	for _, n := range m.numbers() {
		*n, b = int32(binary.LittleEndian.Uint32(b)), b[4:] //nolint:gosec // the same bits
	}
	for _, f := range m.flags() {
		*f, b = b[0] == 1, b[1:]
	}
	m.Field22, b = int64(binary.LittleEndian.Uint64(b)), b[8:] //nolint:gosec // the same bits
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k)/8 { //nolint:gosec // k is at most the length
		return 0, errCutOff
	}
	m.Field5, b = nil, b[k:]
	for range n {
		m.Field5, b = append(m.Field5, binary.LittleEndian.Uint64(b)), b[8:]
	}
	return uint64(all - len(b)), nil //nolint:gosec // never negative
}
