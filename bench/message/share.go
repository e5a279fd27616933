package message

// Share makes dst a copy of src that shares the values of its fields. It is for servers
// whose reply is a parameter; assigning the struct would copy internal state of generated
// messages.
func Share(dst, src *BenchmarkMessage) {
	dst.Field1 = src.Field1
	dst.Field2 = src.Field2
	dst.Field3 = src.Field3
	dst.Field4 = src.Field4
	dst.Field5 = src.Field5
	dst.Field6 = src.Field6
	dst.Field7 = src.Field7
	dst.Field9 = src.Field9
	dst.Field12 = src.Field12
	dst.Field13 = src.Field13
	dst.Field14 = src.Field14
	dst.Field16 = src.Field16
	dst.Field17 = src.Field17
	dst.Field18 = src.Field18
	dst.Field22 = src.Field22
	dst.Field23 = src.Field23
	dst.Field24 = src.Field24
	dst.Field25 = src.Field25
	dst.Field29 = src.Field29
	dst.Field30 = src.Field30
	dst.Field59 = src.Field59
	dst.Field60 = src.Field60
	dst.Field67 = src.Field67
	dst.Field68 = src.Field68
	dst.Field78 = src.Field78
	dst.Field80 = src.Field80
	dst.Field81 = src.Field81
	dst.Field100 = src.Field100
	dst.Field101 = src.Field101
	dst.Field102 = src.Field102
	dst.Field103 = src.Field103
	dst.Field104 = src.Field104
	dst.Field128 = src.Field128
	dst.Field129 = src.Field129
	dst.Field130 = src.Field130
	dst.Field131 = src.Field131
	dst.Field150 = src.Field150
	dst.Field271 = src.Field271
	dst.Field272 = src.Field272
	dst.Field280 = src.Field280
}
